// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/normalize.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "runtime/text/utf8.h"

namespace moonlit {
namespace {

constexpr int kMaxMarks = 256;

Status AppendNfc(std::string_view valid, std::string* out) {
  if (valid.empty()) return Status();
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(valid.data()), static_cast<utf8proc_ssize_t>(valid.size()),
                   &mapped, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (length < 0) return Errorf(Code::kOutOfMemory, "Unicode normalization: %s", utf8proc_errmsg(length));
  out->append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(length));
  return Status();
}

}  // namespace

Result<std::string> NormalizeNfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (Utf8IsAscii(text)) return std::string(text);
  size_t begin = 0;
  int marks = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t length = Utf8CharLength(text.substr(at));
    if (length == 0) {
      MOONLIT_RETURN_IF_ERROR(AppendNfc(text.substr(begin, at - begin), &out));
      out.push_back(text[at]);
      begin = ++at;
      marks = 0;
      continue;
    }
    const auto code_point = static_cast<utf8proc_int32_t>(Utf8Decode(text.substr(at), length));
    marks = utf8proc_get_property(code_point)->combining_class != 0 ? marks + 1 : 0;
    at += length;
    if (marks == kMaxMarks) {
      MOONLIT_RETURN_IF_ERROR(AppendNfc(text.substr(begin, at - begin), &out));
      begin = at;
      marks = 0;
    }
  }
  MOONLIT_RETURN_IF_ERROR(AppendNfc(text.substr(begin), &out));
  return out;
}

}  // namespace moonlit
