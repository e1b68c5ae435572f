// SPDX-License-Identifier: Apache-2.0
// `moonlit bench`: llama-bench's flags and field names, so that scripts which compare runtimes work unchanged.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>
#include <utility>

#include "tools/cli/bench_attention.h"
#include "tools/cli/bench_kernels.h"
#include "tools/cli/bench_report.h"
#include "tools/cli/bench_sessions.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/llama_flags.h"
#include "tools/cli/model_flags.h"
#include "tools/cli/number_ranges.h"

namespace moonlit::cli {
namespace {

constexpr uint32_t kMostTokens = 1u << 24;  // the longest context there is

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
    app.add_option("-m,--model", models_, "GGUF files, or poet")->delimiter(',')->capture_default_str();
    AddNumbers(app, "--threads,-t", "Threads; 0: the default of this machine", 0, 1024, &threads_);
    AddNumbers(app, "--n-prompt,-p", "Prompt tokens of prefill tests; 0: none", 0, kMostTokens, &prompts_);
    AddNumbers(app, "--n-gen,-n", "Generated tokens of decode tests; 0: none", 0, kMostTokens, &gens_);
    AddPairs(app, "--pg", "Also a test of a prompt and its continuation together, like 512,128; may be repeated (-pg)",
             kMostTokens, &pairs_);
    AddNumbers(app, "--n-depth,-d", "Tokens in the cache before the measured part", 0, kMostTokens, &depths_);
    app.add_option("-r,--repetitions", repetitions_, "Measured repetitions after one warm-up")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    AddNumbers(app, "--batch-size,-b", "A prefill step has the smaller of -b and -ub tokens", 1, kMostTokens,
               &batches_);
    AddNumbers(app, "--ubatch-size,--ub", "Tokens of one prefill step (-ub)", 1, 65536, &ubatches_);
    app.add_option("--cache-type-k,--ctk", key_types_, "Types of cached keys (-ctk)")
        ->delimiter(',')
        ->check(IsCacheType());
    app.add_option("--cache-type-v,--ctv", value_types_, "Types of cached values (-ctv)")
        ->delimiter(',')
        ->check(IsCacheType());
    AddFlashAttention(app, &flash_);
    sparse_.DeclareSparse(app);
    app.add_option("-o,--output", format_, "md, json, jsonl (one object a line) or csv")
        ->capture_default_str()
        ->check(CLI::IsMember({"md", "json", "jsonl", "csv"}));
    app.add_flag("--no-warmup", no_warmup_, "Skip the warm-up");
    session_bench_.DeclareFlags(app);
    DeclareModes(app);
    app.footer(
        std::string(
            "Flags with NUMBERS take lists (16,32) and ranges: first-last, first-last+step, first-last*factor. Every "
            "combination is measured;\n") +
        "a row is printed as soon as it is, so what is finished when a model fails or Ctrl-C comes is not lost.\n" +
        llama_.DeclareBench(app));
  }

  int Run() override {
    if (key_types_.empty()) key_types_.push_back("");
    if (value_types_.empty()) value_types_.push_back("");
    InterruptGuard guard;
    if (kernels_) return kernel_bench_.Run(threads_, measure_, format_);
    if (attention_) return attention_bench_.Run(threads_, key_types_, value_types_, measure_, format_);
    if (session_bench_.chosen()) return RunSessions(&guard);
    const std::vector<Test> tests = Tests();
    if (tests.empty()) {
      std::fprintf(stderr, "moonlit: nothing to measure: -p and -n are 0 and there is no -pg\n");
      return kUsage;
    }
    size_t n_ctx = 1;
    for (const Test& t : tests) n_ctx = std::max(n_ctx, t.n_prompt + t.n_gen + t.n_depth);
    if (n_ctx > kMostTokens) {
      std::fprintf(stderr, "moonlit: a test of %zu tokens with its -d, expected at most %u\n", n_ctx, kMostTokens);
      return kUsage;
    }
    BenchReport report(format_, batches_.size() > 1 || ubatches_.size() > 1);
    int code = kOk;
    for (const Setup& setup : Setups(static_cast<uint32_t>(n_ctx))) {
      if ((code = MeasureSetup(setup, tests, &guard, &report)) != kOk) break;
    }
    report.End();
    return code;
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
    for (const char* name : {"--model", "--sessions", "--cancel", "--n-prompt", "--n-gen", "--pg", "--n-depth",
                             "--repetitions", "--batch-size", "--ubatch-size", "--flash-attn", "--no-warmup",
                             "--attention-window", "--attention-sinks", "--attention-pages"}) {
      kernels->excludes(app.get_option(name));
      attention->excludes(app.get_option(name));
    }
    for (const char* name : {"--cache-type-k", "--cache-type-v"}) kernels->excludes(app.get_option(name));
    kernel_bench_.DeclareFlags(app, kernels);
    attention_bench_.DeclareFlags(app, attention);
    measure_.Declare(app);
  }

  int RunSessions(InterruptGuard* guard) {
    std::vector<SessionBench::Test> tests;
    size_t n_ctx = 1;
    for (size_t p : prompts_) {
      for (size_t n : gens_) {
        tests.push_back({p, n});
        n_ctx = std::max(n_ctx, p + n);
      }
    }
    if (n_ctx > kMostTokens) {
      std::fprintf(stderr, "moonlit: a test of %zu tokens, expected at most %u\n", n_ctx, kMostTokens);
      return kUsage;
    }
    int code = kOk;
    for (const Setup& setup : Setups(static_cast<uint32_t>(n_ctx))) {
      ModelFlags flags = FlagsOf(setup);
      flags.max_sessions = session_bench_.most_sessions();
      if ((code = session_bench_.Measure(flags, tests, repetitions_, !no_warmup_, guard)) != kOk) break;
    }
    session_bench_.Print(format_);
    return code;
  }

  struct Test {
    size_t n_prompt, n_gen, n_depth;
  };
  // A model as it is loaded for some tests.
  struct Setup {
    ModelFlags flags;
    uint32_t batch, ubatch;
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
      for (const auto& [p, n] : pairs_) {
        if (p + n > 0) tests.push_back({p, n, depth});
      }
    }
    return tests;
  }

  // Every combination; what comes last varies fastest.
  std::vector<Setup> Setups(uint32_t n_ctx) const {
    std::vector<Setup> setups(1);
    setups[0].flags.n_ctx = n_ctx;
    auto vary = [&](const auto& values, auto set) {
      std::vector<Setup> all;
      for (const Setup& setup : setups) {
        for (const auto& value : values) set(all.emplace_back(setup), value);
      }
      setups = std::move(all);
    };
    vary(models_, [](Setup& s, const std::string& model) { s.flags.model = model; });
    vary(threads_, [](Setup& s, uint32_t threads) { s.flags.threads = threads; });
    vary(key_types_, [](Setup& s, const std::string& type) { s.flags.key_type = type; });
    vary(value_types_, [](Setup& s, const std::string& type) { s.flags.value_type = type; });
    vary(batches_, [](Setup& s, uint32_t tokens) { s.batch = tokens; });
    vary(ubatches_, [](Setup& s, uint32_t tokens) { s.ubatch = tokens; });
    return setups;
  }

  ModelFlags FlagsOf(const Setup& setup) const {
    ModelFlags flags = setup.flags;
    flags.attention_window = sparse_.attention_window;
    flags.attention_sinks = sparse_.attention_sinks;
    flags.attention_pages = sparse_.attention_pages;
    flags.chunk_tokens = std::min(setup.batch, setup.ubatch);
    flags.share_prefixes = false;  // every repetition has the same prompt
    return flags;
  }

  int MeasureSetup(const Setup& setup, const std::vector<Test>& tests, InterruptGuard* guard,
                   BenchReport* report) const {
    int code = kFailed;
    auto model = LoadModel(FlagsOf(setup), &code);
    if (!model) return code;
    auto session = model->NewSession();
    if (!session) return Report(session.error());
    guard->Watch(session->handle());
    for (const Test& test : tests) {
      BenchRow row;
      FillRow(setup, *model, test, &row);
      const api::Error error = Measure(*model, *session, test, &row);
      if (error.code != MOONLIT_OK) {
        code = Report(error);
        break;
      }
      report->Add(row);
      code = kOk;
    }
    guard->Watch(nullptr);
    return code;
  }

  static void FillRow(const Setup& setup, const api::Model& model, const Test& test, BenchRow* row) {
    const moonlit_model_info info = model.info();
    row->model_filename = setup.flags.model;
    row->model_type = std::string(info.architecture) + " " + info.file_type;
    row->model_size = info.file_bytes;
    row->model_n_params = info.parameters;
    row->variant = info.variant;
    row->type_k = info.key_type;
    row->type_v = info.value_type;
    row->n_threads = info.threads;
    row->n_batch = setup.batch;
    row->n_ubatch = setup.ubatch;
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
    bool finite = true;
    bool keep = false;  // the logits of the last step alone: hashing every step's took a seventh of the poet's decode
    std::vector<float> kept;
    auto look = [&](size_t, std::span<const float> logits) {
      finite = finite && std::isfinite(logits[0]);
      if (keep) kept.assign(logits.begin(), logits.end());
    };
    // A Ctrl-C between two calls cancels neither.
    auto eval = [&](std::span<const int32_t> ids, moonlit_outputs outputs) -> api::Error {
      if (Interrupted()) return {MOONLIT_CANCELLED, "interrupted"};
      return session.Eval(ids, outputs, look);
    };
    if (auto error = session.Truncate(0); error.code != MOONLIT_OK) return error;
    if (auto error = eval(RandomIds(test.n_depth, n_vocab), MOONLIT_OUTPUT_NONE); error.code != MOONLIT_OK)
      return error;
    const std::vector<int32_t> ids = RandomIds(test.n_prompt + test.n_gen, n_vocab);
    for (int repetition = no_warmup_ ? 0 : -1; repetition < repetitions_; ++repetition) {
      if (auto error = session.Truncate(test.n_depth); error.code != MOONLIT_OK) return error;
      const double begin = NowSeconds();
      keep = test.n_gen == 0;
      const auto prompt = eval({ids.data(), test.n_prompt}, MOONLIT_OUTPUT_LAST);
      if (prompt.code != MOONLIT_OK) return prompt;
      for (size_t i = 0; i < test.n_gen; ++i) {
        keep = i + 1 == test.n_gen;
        const auto error = eval({&ids[test.n_prompt + i], 1}, MOONLIT_OUTPUT_GENERATED);
        if (error.code != MOONLIT_OK) return error;
      }
      if (repetition >= 0) row->samples_ns.push_back(1e9 * (NowSeconds() - begin));
    }
    row->logits_hash = HashLogits(kept);
    if (!finite) return {MOONLIT_CORRUPT, "the model's logits are not finite: its weights are damaged"};
    return {};
  }

  std::vector<std::string> models_{"poet"};
  std::vector<uint32_t> threads_{0}, prompts_{512}, gens_{128}, depths_{0}, batches_{2048}, ubatches_{512};
  std::vector<std::pair<uint32_t, uint32_t>> pairs_;
  int repetitions_ = 5;
  std::vector<std::string> key_types_;
  std::vector<std::string> value_types_;
  ModelFlags sparse_;  // its attention flags alone
  std::string flash_;
  LlamaFlags llama_;
  std::string format_ = "md";
  bool no_warmup_ = false;
  bool kernels_ = false, attention_ = false;
  MeasureOptions measure_;
  KernelBench kernel_bench_;
  AttentionBench attention_bench_;
  SessionBench session_bench_;
};

}  // namespace

std::unique_ptr<Command> MakeBench() { return std::make_unique<Bench>(); }

}  // namespace moonlit::cli
