// SPDX-License-Identifier: Apache-2.0
// Pieces of a grammar's text (GBNF, grammar.h), for what is converted to it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moonlit {

inline constexpr size_t kMostGrammarText = size_t{1} << 20;

// A literal that stands for these bytes.
std::string Quoted(std::string_view text);
// "a | b | c", one after another; nothing for an empty one.
void AddChoice(std::string& choices, std::string_view choice);

}  // namespace moonlit
