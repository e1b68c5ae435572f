// SPDX-License-Identifier: Apache-2.0
// Q4_1: 32 weights with scale and minimum, x = d * q + m, q in 0..15. 5 bits a weight. (Q4_1 in ggml.)
//
//   byte  0  1 | 2  3 | 4          5          ...  19
//         d F16| m F16| q16 q0     q17 q1          q31 q15        high nibble, low nibble
//
// Encoding without importance spans [min, max] evenly; with importance (d, m) is searched.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/quant/codes.h"

namespace moonlit::q4_1 {

inline constexpr size_t kBlockValues = 32;

struct Block {
  uint16_t d;      // F16
  uint16_t m;      // F16
  uint8_t qs[16];  // value i in the low nibble of qs[i], value i + 16 in the high one
};
static_assert(sizeof(Block) == 20);

void Dequantize(const uint8_t* bytes, float* values, size_t k);
void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k);
// One block as whole numbers (codes.h).
void Codes(const uint8_t* block, BlockCodes* codes);

}  // namespace moonlit::q4_1
