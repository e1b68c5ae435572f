// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/gbnf_text.h"

namespace moonlit {

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

void AddChoice(std::string& choices, std::string_view choice) {
  if (choice.empty()) return;
  if (!choices.empty()) choices += " | ";
  choices += choice;
}

}  // namespace moonlit
