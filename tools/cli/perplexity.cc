// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>

#include "tools/cli/model_flags.h"
#include "tools/cli/text_flags.h"

namespace moonlit::cli {
namespace {

class Perplexity : public Command {
 public:
  void DeclareFlags(CLI::App& app) override {
    model_.key_type = model_.value_type = "f32";  // judge the model, not the cache
    model_.n_ctx = 512;
    model_.Declare(app, true);
    text_.Declare(app);
  }

  int Run() override {
    std::string text;
    if (const int code = text_.Read(&text); code != kOk) return code;
    const size_t window = model_.n_ctx;
    int code = kFailed;
    auto model = LoadModel(model_, &code);
    if (!model) return code;
    auto ids = model->Tokenize(text, MOONLIT_ADD_SPECIAL);
    if (!ids) return Report(ids.error());
    auto session = model->NewSession();
    if (!session) return Report(session.error());
    moonlit_perplexity_result result = {};
    result.size = sizeof result;
    moonlit_error error = {};
    ProgressLine line("perplexity");
    auto progress = [](void* user, size_t done, size_t total, double) {
      static_cast<ProgressLine*>(user)->Update(done, total);
      return 0;
    };
    if (moonlit_perplexity(session->handle(), ids->data(), ids->size(), window == 0 ? model->info().n_ctx : window,
                           progress, &line, &result, &error) != MOONLIT_OK) {
      return Report(api::MakeError(error));
    }
    std::printf("perplexity %.4f +/- %.4f over %zu tokens in %zu windows\n", result.perplexity, result.standard_error,
                result.counted_tokens, result.windows);
    return kOk;
  }

 private:
  ModelFlags model_;
  TextFlags text_;
};

}  // namespace

std::unique_ptr<Command> MakePerplexity() { return std::make_unique<Perplexity>(); }

}  // namespace moonlit::cli
