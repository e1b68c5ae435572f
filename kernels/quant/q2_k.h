// SPDX-License-Identifier: Apache-2.0
// Q2_K: 256 weights in 16 groups of 16, each with a 4-bit scale and a 4-bit minimum under two F16 ones:
// x = (d * scale) * q - (dmin * min), q in 0..3. 2.625 bits a weight. (Q2_K in ggml.)
//
//   byte  0 .. 15                                  | 16 .. 47   48 .. 79  | 80 81 | 82  83
//         group g: min in the high nibble, scale   | values     values    | d F16 | dmin F16
//         in the low one                           | 0..127     128..255  |
//
//   a byte of qs holds four values that are 32 apart:  bits 6-7  4-5  2-3  0-1
//   (byte l of the first half)                         value l+96 l+64 l+32 l
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/quant/codes.h"

namespace moonlit::q2_k {

inline constexpr size_t kBlockValues = 256;

struct Block {
  uint8_t scales[16];  // group g = values 16g .. 16g + 15
  uint8_t qs[64];      // value 128h + 32j + l: bits 2j, 2j + 1 of qs[32h + l]
  uint16_t d;          // F16
  uint16_t dmin;       // F16
};
static_assert(sizeof(Block) == 84);

void Dequantize(const uint8_t* bytes, float* values, size_t k);
void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k);
// One block as whole numbers (codes.h).
void Codes(const uint8_t* block, BlockCodes* codes);

}  // namespace moonlit::q2_k
