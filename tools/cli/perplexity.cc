// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

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
    text_.Declare(app);
  }

  int Run() override {
    std::string text;
    if (const int code = text_.Read(&text); code != kOk) return code;
    ModelFlags flags = model_;
    if (model_.n_ctx == 0) {
      flags.n_ctx = kDefaultWindow;
      flags.warn_of_context = false;  // the window stays within it
    }
    int code = kFailed;
    auto model = LoadModel(flags, &code);
    if (!model) return code;
    auto ids = model->Tokenize(text, MOONLIT_ADD_SPECIAL);
    if (!ids) return Report(ids.error());
    const moonlit_model_info info = model->info();
    size_t window = flags.n_ctx;
    if (model_.n_ctx == 0 && info.n_ctx_train != 0) window = std::min<size_t>(window, info.n_ctx_train);
    auto session = model->NewSession();
    if (!session) return Report(session.error());
    moonlit_perplexity_result result = {};
    result.size = sizeof result;
    const api::Error error = Measure(*session, *ids, window, &result);
    if (error.code != MOONLIT_OK) return Report(error);
    std::printf("perplexity %.4f +/- %.4f over %zu tokens in %zu windows\n", result.perplexity, result.standard_error,
                result.counted_tokens, result.windows);
    return kOk;
  }

 private:
  // The line has ended when this returns, before the result is printed.
  static api::Error Measure(api::Session& session, const std::vector<int32_t>& ids, size_t window,
                            moonlit_perplexity_result* result) {
    InterruptGuard guard;
    guard.Watch(session.handle());
    ProgressLine line("perplexity");
    auto progress = [](void* user, size_t done, size_t total, double) {
      static_cast<ProgressLine*>(user)->Update(done, total);
      return Interrupted() ? 1 : 0;
    };
    moonlit_error error = {};
    moonlit_perplexity(session.handle(), ids.data(), ids.size(), window, progress, &line, result, &error);
    return api::MakeError(error);
  }

  ModelFlags model_;
  TextFlags text_;
};

}  // namespace

std::unique_ptr<Command> MakePerplexity() { return std::make_unique<Perplexity>(); }

}  // namespace moonlit::cli
