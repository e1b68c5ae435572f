// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/utf8.h"

#include <algorithm>

namespace moonlit {
namespace {

bool IsContinuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// The bounds of the second byte are what rules out overlong forms, surrogates and values above U+10FFFF (Unicode, table
// 3-7).
struct Lead {
  size_t length = 0;
  unsigned char second_min = 0x80;
  unsigned char second_max = 0xBF;
};

Lead ReadLead(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

// How many bytes of the character at the front are there and right; *lead is what its first byte promises.
size_t GoodPrefix(std::string_view text, Lead* lead) {
  if (text.empty()) return 0;
  *lead = ReadLead(static_cast<unsigned char>(text[0]));
  if (lead->length == 0) return 0;
  size_t good = 1;
  const size_t limit = std::min(lead->length, text.size());
  for (; good < limit; ++good) {
    const auto byte = static_cast<unsigned char>(text[good]);
    if (!IsContinuation(byte)) break;
    if (good == 1 && (byte < lead->second_min || byte > lead->second_max)) break;
  }
  return good;
}

}  // namespace

size_t Utf8CharLength(std::string_view text) {
  Lead lead;
  const size_t good = GoodPrefix(text, &lead);
  return good != 0 && good == lead.length ? good : 0;
}

size_t Utf8PromisedLength(unsigned char lead) {
  if (lead < 0xC0) return 1;
  if (lead < 0xE0) return 2;
  return lead < 0xF0 ? 3 : 4;
}

bool Utf8IsCutCharacter(std::string_view text) {
  Lead lead;
  const size_t good = GoodPrefix(text, &lead);
  return good != 0 && good == text.size() && good < lead.length;
}

bool Utf8IsSurrogate(std::string_view text) {
  return text.size() >= 3 && static_cast<unsigned char>(text[0]) == 0xED &&
         (static_cast<unsigned char>(text[1]) & 0xE0) == 0xA0 && IsContinuation(static_cast<unsigned char>(text[2]));
}

char32_t Utf8Decode(std::string_view text, size_t length) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (length == 1) return first;
  char32_t code_point = first & (0xFF >> (length + 1));
  for (size_t i = 1; i < length; ++i) code_point = (code_point << 6) | (static_cast<unsigned char>(text[i]) & 0x3F);
  return code_point;
}

void Utf8Append(char32_t code_point, std::string* out) {
  const auto c = static_cast<uint32_t>(code_point);
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
    return;
  }
  if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | (c >> 6)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | (c >> 12)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | (c >> 18)));
    out->push_back(static_cast<char>(0x80 | ((c >> 12) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
  }
  out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
}

bool Utf8IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool Utf8IsValid(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8CharLength(text.substr(i));
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::string Utf8ReplaceInvalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    size_t length = Utf8CharLength(text.substr(i));
    if (length == 0 && Utf8IsSurrogate(text.substr(i))) length = 3;
    if (length == 0) {
      out += kReplacementCharacter;
      ++i;
      continue;
    }
    out.append(text, i, length);
    i += length;
  }
  return out;
}

std::string Utf8MaskInvalid(std::string_view text) {
  std::string out(text);
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8CharLength(text.substr(i));
    if (length != 0) {
      i += length;
    } else if (Utf8IsSurrogate(text.substr(i))) {
      out.replace(i, 3, "\xEE\x80\x80");
      i += 3;
    } else {
      out[i++] = '\x01';
    }
  }
  return out;
}

}  // namespace moonlit
