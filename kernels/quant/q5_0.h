// SPDX-License-Identifier: Apache-2.0
// Q5_0: 32 weights with one scale, x = d * (q - 16), q in 0..31. 5.5 bits a weight. (Q5_0 in ggml.)
//
//   byte  0  1 | 2 .. 5                      | 6          7          ...  21
//         d F16| bit i: fifth bit of value i | q16 q0     q17 q1          q31 q15        high nibble, low nibble
//
// Encoding as in q4_0.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/quant/codes.h"

namespace moonlit::q5_0 {

inline constexpr size_t kBlockValues = 32;

struct Block {
  uint16_t d;      // F16
  uint8_t qh[4];   // bit i % 8 of qh[i / 8]: bit 4 of value i
  uint8_t qs[16];  // bits 0 to 3: value i in the low nibble of qs[i], value i + 16 in the high one
};
static_assert(sizeof(Block) == 22);

void Dequantize(const uint8_t* bytes, float* values, size_t k);
void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k);
// One block as whole numbers (codes.h).
void Codes(const uint8_t* block, BlockCodes* codes);

}  // namespace moonlit::q5_0
