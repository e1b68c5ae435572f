// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>

#include "nlohmann/json.hpp"
#include "tools/cli/model_flags.h"
#include "tools/cli/text_flags.h"

namespace moonlit::cli {
namespace {

class Tokenize : public Command {
 public:
  void DeclareFlags(CLI::App& app) override {
    model_.vocab_only = true;
    model_.Declare(app, false);
    text_.Declare(app);
    app.add_flag("--plain", plain_, "Neither add special tokens nor parse their names in the text");
    app.add_flag("--json", json_, "{\"ids\": [...]} instead of one id and piece a line");
  }

  int Run() override {
    std::string text;
    if (const int code = text_.Read(&text); code != kOk) return code;
    int code = kFailed;
    auto model = LoadModel(model_, &code);
    if (!model) return code;
    auto ids = model->Tokenize(text, plain_ ? 0 : MOONLIT_ADD_SPECIAL | MOONLIT_PARSE_SPECIAL);
    if (!ids) return Report(ids.error());
    if (json_) {
      std::printf("%s\n", nlohmann::json{{"ids", *ids}}.dump().c_str());
      return kOk;
    }
    for (const int32_t& id : *ids) {
      auto piece = model->Detokenize({&id, 1}, true);
      if (!piece) return Report(piece.error());
      // JSON string syntax keeps a piece on its line; bytes that are no UTF-8 show as U+FFFD.
      const std::string shown = nlohmann::json(*piece).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      std::printf("%d\t%s\n", id, shown.c_str());
    }
    return kOk;
  }

 private:
  ModelFlags model_;
  TextFlags text_;
  bool plain_ = false;
  bool json_ = false;
};

class Detokenize : public Command {
 public:
  void DeclareFlags(CLI::App& app) override {
    model_.vocab_only = true;
    model_.Declare(app, false);
    app.add_option("--ids", ids_, "Ids separated by commas")->required();
    app.add_flag("--special", special_, "Show control tokens by their names");
  }

  int Run() override {
    std::vector<int32_t> ids;
    if (!ParseIds(ids_, &ids)) return kUsage;
    int code = kFailed;
    auto model = LoadModel(model_, &code);
    if (!model) return code;
    auto text = model->Detokenize(ids, special_);
    if (!text) return Report(text.error());
    std::fwrite(text->data(), 1, text->size(), stdout);  // a failure is seen when the command ends
    return kOk;
  }

 private:
  ModelFlags model_;
  std::string ids_;
  bool special_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeTokenize() { return std::make_unique<Tokenize>(); }
std::unique_ptr<Command> MakeDetokenize() { return std::make_unique<Detokenize>(); }

}  // namespace moonlit::cli
