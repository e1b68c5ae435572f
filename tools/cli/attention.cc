// SPDX-License-Identifier: Apache-2.0
// `moonlit attention`: the weights that the fused kernel never stores, for any model and text: as tables, as a page, as a drawing. One
// of the commands that may look below the API. docs/seeing-attention.md has examples.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "tools/cli/attention_pictures.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/model_flags.h"
#include "tools/cli/number_ranges.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/text_flags.h"

namespace moonlit::cli {
namespace {

constexpr uint32_t kMostNumber = 65535;
constexpr size_t kMostPairsListed = 10000;

int Failed(const Status& status) {
  return Report({static_cast<moonlit_code>(status.code()), std::string(status.message())});
}

Status WriteFile(const std::string& path, const std::string& text) {
  MOONLIT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  MOONLIT_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
  return file.Commit();
}

class Attention : public Command {
 public:
  void DeclareFlags(CLI::App& app) override {
    model_.key_type = model_.value_type = "f32";  // judge the model, not the cache
    model_.Declare(app, true);
    prompt_.Declare(app, "-p");
    ids_option_ = app.add_option("--ids", ids_, "Token ids separated by commas, taken as they are, instead of text");
    ids_option_->excludes(prompt_.text.prompt_option)->excludes(prompt_.text.file_option);
    layers_ = AddNumbers(app, "--layer", "Layers to look at (default: all); with it, or --head, tables are printed", 0,
                         kMostNumber, &request_.layers);
    heads_ = AddNumbers(app, "--head", "Heads to look at (default: all)", 0, kMostNumber, &request_.heads);
    app.add_flag("--entropy", entropy_, "How spread each head's weights are: mean entropy of the rows, in bits");
    app.add_option("--top", request_.pairs, "The N largest weights, with their tokens")
        ->check(CLI::Range(size_t{1}, kMostPairsListed));
    app.add_option("--html", html_, "Write a page with heat maps of every layer and head; it needs no other file")
        ->check(IsNotEmpty());
    app.add_option("--svg", svg_, "Write the heat maps as a drawing: one map with labels, or a grid of several")
        ->check(IsNotEmpty());
    app.footer(
        "The weights are computed by the runtime's own kernels from queries and keys of a real forward pass. Texts of\n"
        "more than 512 tokens (fewer where all layers and heads are shown) are binned: a cell is what the tokens of a\n"
        "row give to those of a column, on average. At most 4096 tokens. Exit code 1 when a check does not hold.");
  }

  int Run() override {
    std::vector<int32_t> ids;
    if (ids_option_->count() != 0 && !ParseIds(ids_, &ids)) return kUsage;
    std::string prompt;
    int code = kOk;
    if (ids_option_->count() == 0 && (code = prompt_.Read(&prompt)) != kOk) return code;
    for (const std::string* out : {&html_, &svg_}) {
      if (ids_option_->count() == 0 && (code = prompt_.text.CheckOutput(*out)) != kOk) return code;
    }
    const Status status = Show(prompt, ids);
    if (!status.ok()) return Failed(status);
    return holds_ ? kOk : kFailed;
  }

 private:
  Result<std::unique_ptr<CapturedModel>> Load() const {
    if (model_.attention_pages != 0) {
      return Status(Code::kInvalidArgument, "--attention-pages is for generated tokens; a text is read whole");
    }
    CaptureOptions options;
    options.threads = model_.threads;
    options.chunk_tokens = model_.chunk_tokens;
    options.page_tokens = model_.page_tokens;
    if (!FindCacheType(model_.key_type.c_str(), &options.key_type) ||
        !FindCacheType(model_.value_type.c_str(), &options.value_type)) {
      return Status(Code::kInvalidArgument, "the cache has no such type");
    }
    options.exact = model_.exact;
    options.window = model_.attention_window;
    options.sinks = model_.attention_sinks;
    options.packed_cache = model_.packed_cache;
    ProgressLine line("loading");
    options.progress = [&line](uint64_t done, uint64_t total) {
      line.Update(done, total);
      return !Interrupted();
    };
    LoadOptions load;
    load.quantize = model_.quantize;
    load.pre_tokenizer = model_.pre_tokenizer;
    return CapturedModel::Open(model_.model, load, options);
  }

  Status CheckFiles(const CapturedModel& model) const {
    for (const std::string& out : {html_, svg_}) {
      if (!out.empty()) MOONLIT_RETURN_IF_ERROR(RefuseInputs(out, model.facts().files));
    }
    if (!html_.empty() && html_ == svg_) {
      return Errorf(Code::kInvalidArgument, "--html and --svg both name %s: expected two files", html_.c_str());
    }
    return Status();
  }

  Status Show(const std::string& prompt, std::vector<int32_t> ids) {
    InterruptGuard guard;
    Log log([](LogLevel level, const char* text) { PrintLog(nullptr, static_cast<moonlit_log_level>(level), text); });
    const LogScope scope(&log);
    MOONLIT_ASSIGN_OR_RETURN(const std::unique_ptr<CapturedModel> model, Load());
    MOONLIT_RETURN_IF_ERROR(CheckFiles(*model));
    if (ids_option_->count() == 0) {
      MOONLIT_ASSIGN_OR_RETURN(ids, model->tokenizer().Encode(prompt, {.add_special = true, .parse_special = true}));
    }
    if (model_.n_ctx != 0 && ids.size() > model_.n_ctx) {
      return Errorf(Code::kExhausted,
                    "the text has %zu tokens, but the context holds %u: shorten it or give a larger -c/--ctx-size",
                    ids.size(), model_.n_ctx);
    }
    if (const size_t trained = model->facts().n_ctx_train; trained != 0 && ids.size() > trained) {
      std::fprintf(stderr,
                   "moonlit: warning: the text of %zu tokens is longer than the %zu that the model was trained for\n",
                   ids.size(), trained);
    }
    MOONLIT_ASSIGN_OR_RETURN(const AttentionMaps maps, Compute(*model, ids));
    Print(maps);
    if (!html_.empty()) MOONLIT_RETURN_IF_ERROR(WriteFile(html_, HtmlPage(maps)));
    if (!svg_.empty()) MOONLIT_RETURN_IF_ERROR(WriteFile(svg_, SvgDrawing(maps)));
    return Status();
  }

  // The line has ended when this returns, before anything else is printed.
  Result<AttentionMaps> Compute(CapturedModel& model, const std::vector<int32_t>& ids) const {
    ProgressLine line("computing");
    return MakeMaps(model, ids, request_, [&line](size_t done, size_t all) {
      line.Update(done, all);
      return !Interrupted();
    });
  }

  void Print(const AttentionMaps& maps) {
    std::printf("%s: %zu tokens, %zu map%s (kernels %s, cache %s)\n", maps.model.c_str(), maps.tokens.size(),
                maps.maps.size(), maps.maps.size() == 1 ? "" : "s", maps.variant.c_str(), maps.cache.c_str());
    if (maps.bin > 1) {
      std::printf(
          "binned: a row or column of a map is %zu tokens; a cell is what the tokens of a row give to those of a "
          "column, on average\n",
          maps.bin);
    }
    if (layers_->count() != 0 || heads_->count() != 0) PrintTables(maps);
    if (layers_->count() + heads_->count() + request_.pairs == 0 && !entropy_ && html_.empty() && svg_.empty()) {
      std::printf("--layer and --head print tables; --html, --svg, --entropy and --top show all layers and heads\n");
    }
    if (entropy_) PrintEntropy(maps);
    if (request_.pairs != 0) PrintPairs(maps);
    holds_ = PrintChecks(maps);
  }

  ModelFlags model_;
  PromptFlags prompt_;
  MapRequest request_;
  std::string ids_, html_, svg_;
  CLI::Option *ids_option_ = nullptr, *layers_ = nullptr, *heads_ = nullptr;
  bool entropy_ = false, holds_ = true;
};

}  // namespace

std::unique_ptr<Command> MakeAttention() { return std::make_unique<Attention>(); }

}  // namespace moonlit::cli
