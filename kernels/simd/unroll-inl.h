// SPDX-License-Identifier: Apache-2.0
// Compile-time loops. Arrays of vectors stay in registers only when every index is a constant before the compiler splits
// aggregates; `#pragma unroll` comes too late for that on GCC, a fold over indices does not.
//
//   Unroll<8>([&](auto i) MOONLIT_INLINE_LAMBDA { sum[i] = hn::Add(sum[i], w[i]); });
#pragma once

#include <stddef.h>

#include "kernels/cpu/variant-inl.h"

#define MOONLIT_INLINE_LAMBDA __attribute__((always_inline))

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// A number that is a type, so that a lambda's parameter can be a constant expression.
template <size_t kValue>
struct Index {
  static constexpr size_t value = kValue;
  constexpr operator size_t() const { return kValue; }
};

template <size_t kCount, size_t kDone = 0, class Body>
HWY_INLINE void Unroll(Body&& body) {
  if constexpr (kDone < kCount) {
    body(Index<kDone>());
    Unroll<kCount, kDone + 1>(body);
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
