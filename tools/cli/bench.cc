// SPDX-License-Identifier: Apache-2.0
// `moonlit bench`: llama-bench's flags and field names, so that scripts which compare runtimes work unchanged.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>

#include "nlohmann/json.hpp"
#include "tools/cli/bench_attention.h"
#include "tools/cli/bench_kernels.h"
#include "tools/cli/bench_report.h"
#include "tools/cli/model_flags.h"

namespace moonlit::cli {
namespace {

// FNV-1a over the bits of the last logits: a fast but wrong kernel shows as another hash.
uint64_t HashLogits(std::span<const float> logits) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto* bytes = reinterpret_cast<const unsigned char*>(logits.data());
  for (size_t i = 0; i < logits.size_bytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

class Bench : public Command {
 public:
  void DeclareFlags(CLI::App& app) override {
    const CLI::Range kTokens(0u, 1u << 24);  // the longest context there is
    app.add_option("-m,--model", models_, "GGUF files, or poet")->delimiter(',')->capture_default_str();
    app.add_option("-t,--threads", threads_, "Threads; 0: the default of this machine")
        ->delimiter(',')
        ->capture_default_str();
    app.add_option("-p,--n-prompt", prompts_, "Prompt tokens of prefill tests; 0: none")
        ->delimiter(',')
        ->capture_default_str()
        ->check(kTokens);
    app.add_option("-n,--n-gen", gens_, "Generated tokens of decode tests; 0: none")
        ->delimiter(',')
        ->capture_default_str()
        ->check(kTokens);
    app.add_option("-d,--n-depth", depths_, "Tokens in the cache before the measured part")
        ->delimiter(',')
        ->capture_default_str()
        ->check(kTokens);
    app.add_option("-r,--repetitions", repetitions_, "Measured repetitions after one warm-up")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    app.add_option("-b,--batch-size", batch_, "Accepted for compatibility; -ub decides")->capture_default_str();
    app.add_option("--ub,--ubatch-size", ubatch_, "Tokens of one prefill step (-ub)")->capture_default_str();
    app.add_option("--cache-type-k,--ctk", key_types_, "Types of cached keys (-ctk)")
        ->delimiter(',')
        ->check(IsCacheType());
    app.add_option("--cache-type-v,--ctv", value_types_, "Types of cached values (-ctv)")
        ->delimiter(',')
        ->check(IsCacheType());
    app.add_option("--fa,--flash-attn", flash_, "Accepted for compatibility: attention is always fused (-fa)");
    app.add_option("-o,--output", format_, "md, json or csv")
        ->capture_default_str()
        ->check(CLI::IsMember({"md", "json", "csv"}));
    app.add_flag("--no-warmup", no_warmup_, "Skip the warm-up");
    DeclareModes(app);
  }

  int Run() override {
    if (key_types_.empty()) key_types_.push_back("");
    if (value_types_.empty()) value_types_.push_back("");
    if (kernels_) return kernel_bench_.Run(threads_, measure_, format_);
    if (attention_) return attention_bench_.Run(threads_, key_types_, value_types_, measure_, format_);
    for (const std::string& model : models_) {
      for (uint32_t threads : threads_) {
        for (const std::string& key_type : key_types_) {
          for (const std::string& value_type : value_types_) {
            ModelFlags flags;
            flags.model = model;
            flags.threads = threads;
            flags.key_type = key_type;
            flags.value_type = value_type;
            flags.chunk_tokens = ubatch_;
            if (int code = RunModel(flags); code != kOk) return code;
          }
        }
      }
    }
    return PrintReport(rows_, format_);
  }

 private:
  // Other things to measure than a model, with flags of their own; -t and -o (and -ctk, -ctv) go with them.
  void DeclareModes(CLI::App& app) {
    CLI::Option* kernels = app.add_flag("--kernels", kernels_,
                                        "Measure the product kernels instead of a model: format x shape x rows, as "
                                        "shares of this machine's measured peaks");
    CLI::Option* attention = app.add_flag("--attention", attention_,
                                          "Measure fused attention instead of a model, beside the naive version that "
                                          "stores its table of scores");
    kernels->excludes(attention);
    for (const char* name : {"--model", "--n-prompt", "--n-gen", "--n-depth", "--repetitions", "--batch-size",
                             "--ubatch-size", "--flash-attn", "--no-warmup"}) {
      kernels->excludes(app.get_option(name));
      attention->excludes(app.get_option(name));
    }
    for (const char* name : {"--cache-type-k", "--cache-type-v"}) kernels->excludes(app.get_option(name));
    kernel_bench_.DeclareFlags(app, kernels);
    attention_bench_.DeclareFlags(app, attention);
    measure_.Declare(app);
  }

  struct Test {
    size_t n_prompt, n_gen, n_depth;
  };

  std::vector<Test> Tests() const {
    std::vector<Test> tests;
    for (size_t depth : depths_) {
      for (size_t p : prompts_) {
        if (p > 0) tests.push_back({p, 0, depth});
      }
      for (size_t n : gens_) {
        if (n > 0) tests.push_back({0, n, depth});
      }
    }
    return tests;
  }

  int RunModel(ModelFlags flags) {
    const std::vector<Test> tests = Tests();
    if (tests.empty()) {
      std::fprintf(stderr, "moonlit: nothing to measure: -p and -n are both 0\n");
      return kUsage;
    }
    size_t n_ctx = 1;
    for (const Test& t : tests) {
      n_ctx = std::max(n_ctx, t.n_prompt + t.n_gen + t.n_depth);
    }
    flags.n_ctx = static_cast<uint32_t>(n_ctx);
    int code = kFailed;
    auto model = LoadModel(flags, &code);
    if (!model) return code;
    auto session = model->NewSession();
    if (!session) return Report(session.error());
    for (const Test& test : tests) {
      BenchRow row;
      FillRow(flags, *model, test, &row);
      if (auto error = Measure(*model, *session, test, &row); error.code != MOONLIT_OK) return Report(error);
      rows_.push_back(std::move(row));
    }
    return kOk;
  }

  void FillRow(const ModelFlags& flags, const api::Model& model, const Test& test, BenchRow* row) const {
    const moonlit_model_info info = model.info();
    row->model_filename = flags.model;
    row->model_type = std::string(info.architecture) + " " + info.file_type;
    row->model_size = info.file_bytes;
    row->model_n_params = info.parameters;
    row->variant = info.variant;
    row->type_k = info.key_type;
    row->type_v = info.value_type;
    row->n_threads = info.threads;
    row->n_batch = batch_;
    row->n_ubatch = ubatch_;
    row->n_prompt = test.n_prompt;
    row->n_gen = test.n_gen;
    row->n_depth = test.n_depth;
    char time[32];
    const std::time_t now = std::time(nullptr);
    std::tm utc;
    std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    row->test_time = time;
  }

  // Random ids with a fixed seed, as many as asked: speed does not depend on the text.
  static std::vector<int32_t> RandomIds(size_t count, uint32_t n_vocab) {
    std::minstd_rand random(1);
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % n_vocab);
    return ids;
  }

  api::Error Measure(const api::Model& model, api::Session& session, const Test& test, BenchRow* row) const {
    const uint32_t n_vocab = model.info().n_vocab;
    if (auto error = session.Truncate(0); error.code != MOONLIT_OK) return error;
    if (auto error = session.Eval(RandomIds(test.n_depth, n_vocab), MOONLIT_OUTPUT_NONE, {}); error.code != MOONLIT_OK)
      return error;
    const std::vector<int32_t> ids = RandomIds(test.n_prompt + test.n_gen, n_vocab);
    bool finite = true;
    for (int repetition = no_warmup_ ? 0 : -1; repetition < repetitions_; ++repetition) {
      if (auto error = session.Truncate(test.n_depth); error.code != MOONLIT_OK) return error;
      const double begin = NowSeconds();
      auto keep_hash = [&](size_t, std::span<const float> logits) {
        row->logits_hash = HashLogits(logits);
        finite = finite && std::isfinite(logits[0]);
      };
      if (test.n_prompt > 0) {
        const auto error = session.Eval({ids.data(), test.n_prompt}, MOONLIT_OUTPUT_LAST, keep_hash);
        if (error.code != MOONLIT_OK) return error;
      }
      for (size_t i = 0; i < test.n_gen; ++i) {
        const auto error = session.Eval({&ids[test.n_prompt + i], 1}, MOONLIT_OUTPUT_LAST, keep_hash);
        if (error.code != MOONLIT_OK) return error;
      }
      if (repetition >= 0) row->samples_ns.push_back(1e9 * (NowSeconds() - begin));
    }
    if (!finite) return {MOONLIT_CORRUPT, "the model's logits are not finite: its weights are damaged"};
    return {};
  }

  std::vector<std::string> models_{"poet"};
  std::vector<uint32_t> threads_{0};
  std::vector<size_t> prompts_{512};
  std::vector<size_t> gens_{128};
  std::vector<size_t> depths_{0};
  int repetitions_ = 5;
  uint32_t batch_ = 2048;
  uint32_t ubatch_ = 512;
  std::vector<std::string> key_types_;
  std::vector<std::string> value_types_;
  std::string flash_;
  std::string format_ = "md";
  bool no_warmup_ = false;
  bool kernels_ = false, attention_ = false;
  MeasureOptions measure_;
  KernelBench kernel_bench_;
  AttentionBench attention_bench_;
  std::vector<BenchRow> rows_;
};

}  // namespace

std::unique_ptr<Command> MakeBench() { return std::make_unique<Bench>(); }

}  // namespace moonlit::cli
