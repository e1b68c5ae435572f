// SPDX-License-Identifier: Apache-2.0
// Unicode normalization of text that may not be valid UTF-8 (UAX 15; tables by utf8proc).
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace moonlit {

// Normalization form C; bytes that are not UTF-8 pass unchanged and end what is composed. A run of combining marks is
// normalized in stretches of 256 marks, because ordering a run takes quadratic time (UAX 15 section 13 allows 30 in
// stream-safe text).
Result<std::string> NormalizeNfc(std::string_view text);

}  // namespace moonlit
