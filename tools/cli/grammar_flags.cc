// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/grammar_flags.h"

#include <utility>

#include "tools/cli/model_flags.h"
#include "tools/cli/text_flags.h"

namespace moonlit::cli {

void GrammarFlags::Declare(CLI::App& app) {
  CLI::Option_group* const group = app.add_option_group("Grammar", "What the text has to be, at most one of");
  group->add_option("--grammar", text_, "Grammar in GBNF (llama.cpp's notation), with a rule named root");
  group->add_option("--grammar-file", file_, "File with such a grammar");
  group->add_option("-j,--json-schema", schema_, "JSON schema; {} allows any JSON");
  group->add_option("--json-schema-file", schema_file_, "File with a JSON schema");
  group->require_option(0, 1);
}

int GrammarFlags::Make(const api::Model& model, std::optional<api::Grammar>* grammar) const {
  const std::string& file = file_.empty() ? schema_file_ : file_;
  std::string text = text_.empty() ? schema_ : text_;
  if (!file.empty()) {
    if (const int code = ReadTextFile(file, &text); code != kOk) return code;
  }
  if (text.empty() && file.empty()) return kOk;
  const bool gbnf = !text_.empty() || !file_.empty();
  auto made = gbnf ? model.NewGrammar(text) : model.NewJsonGrammar(text);
  if (!made) return Report(made.error());
  *grammar = std::move(*made);
  return kOk;
}

}  // namespace moonlit::cli
