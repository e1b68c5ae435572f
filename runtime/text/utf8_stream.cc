// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/utf8_stream.h"

#include "runtime/text/utf8.h"

namespace moonlit {

std::string Utf8Stream::Add(std::string_view bytes) {
  std::string pending = std::move(held_);
  pending += bytes;
  held_.clear();
  std::string out;
  out.reserve(pending.size());
  const std::string_view text = pending;
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (const size_t length = Utf8CharLength(rest); length != 0) {
      out.append(rest.substr(0, length));
      i += length;
      continue;
    }
    if (Utf8IsCutCharacter(rest)) {
      held_ = rest;
      break;
    }
    size_t bad = 1;
    while (Utf8IsCutCharacter(rest.substr(0, bad + 1)) && bad + 1 < rest.size()) ++bad;
    out += kReplacementCharacter;
    i += bad;
  }
  return out;
}

std::string Utf8Stream::Finish() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(kReplacementCharacter);
}

std::string_view TokenStream::NextBytes(int32_t id) {
  std::string_view bytes = tokenizer_->TokenBytes(id, show_special_);
  if (strip_space_ && !bytes.empty() && bytes[0] == ' ') bytes.remove_prefix(1);
  strip_space_ = false;
  return bytes;
}

std::string TokenStream::Add(int32_t id) { return utf8_.Add(NextBytes(id)); }

}  // namespace moonlit
