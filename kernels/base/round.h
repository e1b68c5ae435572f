// SPDX-License-Identifier: Apache-2.0
// Integer rounding for sizes and strides. `static inline`, because variant objects may include no weak symbols.
#pragma once

#include <stddef.h>

namespace moonlit {

// Smallest multiple of `unit` that is >= n. REQUIRES: unit > 0, no overflow.
static inline constexpr size_t RoundUp(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }
static inline constexpr size_t CeilDiv(size_t n, size_t unit) { return (n + unit - 1) / unit; }

}  // namespace moonlit
