// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "tools/cli/adapter_flags.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/model_flags.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/text_flags.h"

namespace moonlit::cli {
namespace {

constexpr uint32_t kDefaultWindow = 512;

// After the range of -c, so the text is a number.
std::string LeastWindow(std::string& text) {
  const unsigned long tokens = std::strtoul(text.c_str(), nullptr, 10);
  if (tokens == 0 || tokens >= 4) return "";
  return "Value " + text + " is too small for a window: expected 4 to 16777216, or 0";
}

class Perplexity : public Command {
 public:
  void DeclareFlags(CLI::App& app) override {
    model_.key_type = model_.value_type = "f32";  // judge the model, not the cache
    model_.Declare(app, true);
    app.get_option("--ctx-size")
        ->description(
            "Tokens of a window, of which the text must have two; 0: 512, or what the model was trained for if "
            "that is less")
        ->check(CLI::Validator(LeastWindow, ""));
    adapters_.Declare(app);
    text_.Declare(app);
    app.add_option("--logits-out", logits_out_,
                   "File to write with the model's log-probabilities (vocabulary x 2 bytes a token), for --compare "
                   "with another "
                   "model; llama-perplexity --kl-divergence reads it too")
        ->check(IsNotEmpty());
    app.add_option(
           "--compare,--kl-divergence-base", compare_,
           "File that --logits-out (or llama-perplexity) wrote for a better model on the same text: gives KL "
           "divergence and top-1 agreement. The file's log-probabilities have 16 bits: the perplexity of the base "
           "differs a little from the one that was printed when it was written")
        ->check(CLI::ExistingFile);
  }

  int Run() override {
    std::string text;
    int code = text_.CheckOutput(logits_out_);
    if (code == kOk) code = text_.Read(&text);
    if (code != kOk) return code;
    ModelFlags flags = model_;
    flags.default_ctx = kDefaultWindow;
    auto model = LoadModel(flags, &code);
    if (!model) return code;
    auto ids = model->Tokenize(text, MOONLIT_ADD_SPECIAL);
    if (!ids) return Report(ids.error());
    const size_t window = model->info().n_ctx;
    auto session = model->NewSession();
    if (!session) return Report(session.error());
    if ((code = adapters_.Apply(*model, *session)) != kOk) return code;
    moonlit_perplexity_result result = {};
    result.size = sizeof result;
    const api::Error error = Measure(*session, *ids, window, &result);
    if (error.code != MOONLIT_OK) return Report(error);
    std::printf("perplexity %.4f +/- %.4f over %zu tokens in %zu windows\n", result.perplexity, result.standard_error,
                result.counted_tokens, result.windows);
    if (!compare_.empty()) PrintComparison(result);
    return kOk;
  }

 private:
  static void PrintComparison(const moonlit_perplexity_result& result) {
    std::printf("base       perplexity %.4f by the file's 16-bit log-probabilities, ratio %.6f\n",
                result.base_perplexity, result.perplexity / result.base_perplexity);
    std::printf("KL         mean %.6f +/- %.6f, median %.6f, 99%% %.6f, largest %.6f nats\n", result.kl_mean,
                result.kl_standard_error, result.kl_median, result.kl_percentile_99, result.kl_maximum);
    std::printf("top-1      the same at %.3f%% of tokens\n", 100 * result.same_top);
    std::printf("p(next)    differs by %.3f%% (root mean square)\n", 100 * result.probability_rms);
  }

  // The line has ended when this returns, before the result is printed.
  api::Error Measure(api::Session& session, const std::vector<int32_t>& ids, size_t window,
                     moonlit_perplexity_result* result) const {
    InterruptGuard guard;
    guard.Watch(session.handle());
    ProgressLine line("perplexity");
    moonlit_perplexity_options options;
    moonlit_perplexity_options_init(&options, sizeof options);
    options.window = window;
    options.user = &line;
    options.progress = [](void* user, size_t done, size_t total, double) {
      static_cast<ProgressLine*>(user)->Update(done, total);
      return Interrupted() ? 1 : 0;
    };
    if (!logits_out_.empty()) options.logits_out = logits_out_.c_str();
    if (!compare_.empty()) options.logits_base = compare_.c_str();
    moonlit_error error = {};
    moonlit_perplexity_with(session.handle(), ids.data(), ids.size(), &options, result, &error);
    return api::MakeError(error);
  }

  ModelFlags model_;
  AdapterFlags adapters_;
  TextFlags text_;
  std::string logits_out_, compare_;
};

}  // namespace

std::unique_ptr<Command> MakePerplexity() { return std::make_unique<Perplexity>(); }

}  // namespace moonlit::cli
