// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/replace_all.h"

namespace moonlit {

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t found = text.find(from, at);
    out += text.substr(at, found == std::string_view::npos ? found : found - at);
    if (found == std::string_view::npos) break;
    out += to;
    at = found + from.size();
  }
  return out;
}

}  // namespace moonlit
