// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/grammar.h"

#include <utility>

#include "runtime/api/grammar_handle.h"
#include "runtime/api/handles.h"

namespace moonlit::api {

Result<std::optional<GrammarMask>> NewMask(const moonlit_grammar* grammar, const Tokenizer& tokenizer) {
  if (grammar == nullptr) return std::optional<GrammarMask>();
  if (&grammar->order->tokenizer() != &tokenizer)
    return Status(Code::kInvalidArgument, "the grammar was made for another model");
  MOONLIT_ASSIGN_OR_RETURN(GrammarMask mask, GrammarMask::Create(grammar->grammar, grammar->order));
  return std::optional<GrammarMask>(std::move(mask));
}

namespace {

Status NewHandle(const moonlit_model* model, Result<Grammar> made, moonlit_grammar** grammar) {
  if (!made.ok()) return made.status();
  auto handle = std::make_unique<moonlit_grammar>();
  handle->grammar = std::make_shared<const Grammar>(std::move(made).value());
  handle->order = std::make_shared<const TokenOrder>(model->tokenizer());
  *grammar = handle.release();
  return Status();
}

}  // namespace
}  // namespace moonlit::api

using moonlit::Status;
using moonlit::api::CheckArray;
using moonlit::api::Guard;
using moonlit::api::NotNull;

extern "C" {

moonlit_code moonlit_grammar_new(const moonlit_model* model, const char* text, size_t length, const char* root,
                                 moonlit_grammar** grammar, moonlit_error* error) {
  return Guard(model, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(CheckArray(text, length, "text"));
    MOONLIT_RETURN_IF_ERROR(NotNull(grammar, "grammar"));
    return moonlit::api::NewHandle(model, moonlit::Grammar::Parse({text, length}, root != nullptr ? root : "root"),
                                   grammar);
  });
}

moonlit_code moonlit_grammar_new_json(const moonlit_model* model, const char* schema, size_t length,
                                      moonlit_grammar** grammar, moonlit_error* error) {
  return Guard(model, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(CheckArray(schema, length, "schema"));
    MOONLIT_RETURN_IF_ERROR(NotNull(grammar, "grammar"));
    return moonlit::api::NewHandle(model, moonlit::Grammar::FromJsonSchema({schema, length}), grammar);
  });
}

void moonlit_grammar_free(moonlit_grammar* grammar) { delete grammar; }

}  // extern "C"
