// SPDX-License-Identifier: Apache-2.0
// A template's text cut into words, with Jinja's rules for white space around tags as transformers sets them: trim_blocks and
// lstrip_blocks on, a newline at the template's end left out (https://jinja.palletsprojects.com/templates/#whitespace-control).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moonlit::jinja {

enum class TokenKind {
  kText,         // between tags
  kOutputBegin,  // {{
  kOutputEnd,    // }}
  kBlockBegin,   // {%
  kBlockEnd,     // %}
  kName,
  kString,  // the value, escapes read
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  uint32_t line;  // from 1
};

// The last token is kEnd. Throws Fault (kCorrupt) with the line where something does not end.
std::vector<Token> Lex(std::string_view source);

}  // namespace moonlit::jinja
