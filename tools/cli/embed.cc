// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <string>

#include "nlohmann/json.hpp"
#include "tools/cli/adapter_flags.h"
#include "tools/cli/model_flags.h"
#include "tools/cli/text_flags.h"

namespace moonlit::cli {
namespace {

class Embed : public Command {
 public:
  void DeclareFlags(CLI::App& app) override {
    model_.Declare(app, true);
    text_.Declare(app);
    adapters_.Declare(app);
    app.add_option("--pooling", pooling_,
                   "How tokens become one vector: mean, first (also cls) or last; default: as the model says, which "
                   "one that makes text seldom does")
        ->check(CLI::IsMember({"mean", "first", "cls", "last"}));
    app.add_flag("--raw", raw_, "Leave the vector's length as it is (default: 1)");
  }

  int Run() override {
    std::string text;
    if (const int code = text_.Read(&text); code != kOk) return code;
    int code = kFailed;
    auto model = LoadModel(model_, &code);
    if (!model) return code;
    auto ids = model->Tokenize(text, MOONLIT_ADD_SPECIAL);
    if (!ids) return Report(ids.error());
    moonlit_embed_options options;
    moonlit_embed_options_init(&options, sizeof options);
    if (!pooling_.empty()) options.pooling = ToPooling(pooling_);
    options.raw = raw_ ? 1 : 0;
    ScaledAdapters adapters;
    if (code = adapters_.Load(*model, &adapters); code != kOk) return code;
    options.adapters = adapters.handles.data();
    options.adapter_scales = adapters.scales.data();
    options.adapter_count = adapters.handles.size();
    auto vector = model->Embed(*ids, options);
    if (!vector) {
      if (pooling_.empty() && vector.error().message.find("pooling_type") != std::string::npos)
        return Report({vector.error().code, vector.error().message + ", with --pooling"});
      return Report(vector.error());
    }
    std::printf("%s\n", nlohmann::json{{"tokens", ids->size()}, {"embedding", *vector}}.dump().c_str());
    return kOk;
  }

 private:
  static moonlit_pooling ToPooling(const std::string& name) {
    if (name == "mean") return MOONLIT_POOLING_MEAN;
    return name == "last" ? MOONLIT_POOLING_LAST : MOONLIT_POOLING_FIRST;
  }

  ModelFlags model_;
  TextFlags text_;
  AdapterFlags adapters_;
  std::string pooling_;
  bool raw_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeEmbed() { return std::make_unique<Embed>(); }

}  // namespace moonlit::cli
