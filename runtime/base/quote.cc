// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/quote.h"

#include <cstdio>

namespace moonlit {
namespace {

// Bytes of the UTF-8 character that `text` begins with; 0 when it begins with none. Enough for messages: overlong forms and
// surrogates pass.
size_t Utf8Length(std::string_view text) {
  const unsigned char lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string QuoteForMessage(std::string_view text) {
  constexpr size_t kMost = 80;
  std::string quoted = "\"";
  size_t i = 0;
  while (i < text.size() && i < kMost) {
    const unsigned char byte = static_cast<unsigned char>(text[i]);
    const size_t length = Utf8Length(text.substr(i));
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", byte);
      quoted += escaped;
      ++i;
      continue;
    }
    if (byte == '"' || byte == '\\') quoted += '\\';
    quoted += text.substr(i, length);
    i += length;
  }
  quoted += '"';
  if (i < text.size()) quoted += "... (" + std::to_string(text.size()) + " bytes)";
  return quoted;
}

std::string_view FrontForMessage(std::string_view text, size_t bytes) noexcept {
  if (text.size() <= bytes) return text;
  const auto continues = [&](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; };
  size_t end = bytes;
  while (end > 0 && bytes - end < 3 && continues(end)) --end;
  return text.substr(0, continues(end) ? bytes : end);
}

}  // namespace moonlit
