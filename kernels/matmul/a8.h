// SPDX-License-Identifier: Apache-2.0
// A8: the one format of activations that enter an integer product. A row of K values is cut into groups of 32 (the last
// may be shorter and is padded with zeros):
//
//   scale[g]     = max|x| / 127                         f32, 0 for a group of zeros
//   q[i]         = round to nearest, ties to even, of x[i] * (127 / max|x|)      int8 in [-127, 127]
//   sum16[2g+h]  = sum of q over the h-th half (16 values) of group g            int16, |sum| <= 2032
//
// A group whose maximum is below 2^-119 counts as zeros, so that the scale is a normal number and 127 / max|x| finite.
// A group with an inf or a NaN gets scale NaN and q 0, so its outputs are NaN instead of plausible numbers.
// One scale per 32 and not per 256: beside outlier channels a coarse scale costs too much (docs/design.md).
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit {

inline constexpr size_t kA8Group = 32;
inline constexpr float kA8Smallest = 0x1p-119f;

// Rows of quantized activations; does not own. Strides are in elements of the pointer beside them.
struct A8View {
  int8_t* q;            // [rows, RoundUp(k, 32)], 64-byte aligned rows
  float* scale;         // [rows, groups]
  int16_t* sum16;       // [rows, 2 * groups]
  size_t q_stride;      // multiple of 64
  size_t scale_stride;  // multiple of 16
  size_t sum_stride;    // multiple of 32
};

// Bytes for `rows` rows of k values as one block, and the view of such a block (64-byte aligned memory of the caller).
size_t A8Bytes(size_t rows, size_t k);
A8View MakeA8View(void* memory, size_t rows, size_t k);

}  // namespace moonlit
