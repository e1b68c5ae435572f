// SPDX-License-Identifier: Apache-2.0
// Calls the functions of kernels/simd/exp-inl.h over arrays.
#pragma once

#include <stddef.h>

#include "kernels/cpu/variant.h"

namespace moonlit {

// n is a multiple of 16.
struct ExpProbeTable {
  void (*exp2)(const float* x, float* out, size_t n);
  void (*exp2_up_to_127)(const float* x, float* out, size_t n);
  void (*exp)(const float* x, float* out, size_t n);
  void (*tanh)(const float* x, float* out, size_t n);
};

#define MOONLIT_BUILT_VARIANT(name, bytes, halves, floats) \
  namespace floats {                                       \
  extern const ExpProbeTable kExpProbeTable;               \
  }
#include "moonlit/variants_built.inc"
#undef MOONLIT_BUILT_VARIANT

}  // namespace moonlit
