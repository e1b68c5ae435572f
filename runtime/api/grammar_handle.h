// SPDX-License-Identifier: Apache-2.0
// What is behind moonlit_grammar, and its use in a generation.
#pragma once

#include <memory>
#include <optional>

#include "runtime/api/moonlit.h"
#include "runtime/base/status.h"
#include "runtime/text/grammar_mask.h"

struct moonlit_grammar {
  std::shared_ptr<const moonlit::Grammar> grammar;
  std::shared_ptr<const moonlit::TokenOrder> order;
};

namespace moonlit::api {

// A mask for one text; none for null. kInvalidArgument: the grammar was made for another model.
Result<std::optional<GrammarMask>> NewMask(const moonlit_grammar* grammar, const Tokenizer& tokenizer);

}  // namespace moonlit::api
