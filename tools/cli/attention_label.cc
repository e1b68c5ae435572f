// SPDX-License-Identifier: Apache-2.0
// Tokens are untrusted bytes: their labels are made here, once, for the terminal, HTML and SVG, which still escape what is markup to them.
#include <algorithm>
#include <cstdio>

#include "runtime/text/utf8.h"
#include "tools/cli/attention_maps.h"

namespace moonlit::cli {
namespace {

// Control characters, and what is invisible or turns the direction of the text around it.
bool IsHidden(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD || c == 0x61C || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFB) ||
         (c >= 0xFFFE && c <= 0xFFFF) || (c >= 0xE0000 && c <= 0xE0FFF);
}

std::string CharacterLabel(char32_t c, std::string_view bytes) {
  if (c == ' ' || c == 0xA0) return "\xE2\x90\xA3";  // U+2423
  if (c == 0x2581) return "\xE2\x90\xA3";            // SentencePiece's space
  if (c == '\n') return "\xE2\x86\xB5";              // U+21B5
  if (c == '\t') return "\xE2\x86\x92";              // U+2192
  if (!IsHidden(c)) return std::string(bytes);
  char text[16];
  std::snprintf(text, sizeof text, "U+%04X", static_cast<unsigned>(c));
  return text;
}

}  // namespace

std::string TokenLabel(std::string_view bytes) {
  std::string label;
  while (!bytes.empty()) {
    size_t length = Utf8CharLength(bytes);
    if (length == 0) {
      char text[8];
      std::snprintf(text, sizeof text, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(bytes[0])));
      label += text;
      length = 1;
    } else {
      label += CharacterLabel(Utf8Decode(bytes, length), bytes.substr(0, length));
    }
    bytes.remove_prefix(length);
  }
  return label.empty() ? "\xE2\x88\x85" : label;  // U+2205
}

std::string NameLabel(std::string_view bytes) {
  std::string name;
  for (size_t at = 0; at < bytes.size();) {
    const size_t space = std::min(bytes.find(' ', at), bytes.size());
    if (space > at) name += TokenLabel(bytes.substr(at, space - at));
    if (space < bytes.size()) name += ' ';
    at = space + 1;
  }
  return name;
}

}  // namespace moonlit::cli
