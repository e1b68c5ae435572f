// SPDX-License-Identifier: Apache-2.0
// Q4_K: 256 weights in 8 groups of 32, each with a 6-bit scale and a 6-bit minimum under two F16 ones:
// x = (d * scale) * q - (dmin * min), q in 0..15. 4.5 bits a weight. (Q4_K in ggml.)
//
//   byte  0  1 | 2  3     | 4 .. 15            | 16 .. 47   48 .. 79   80 .. 111  112 .. 143
//         d F16| dmin F16 | scales and minima, | groups     groups     groups     groups
//              |          | see k_scales.h     | 0 and 1    2 and 3    4 and 5    6 and 7
//
//   a byte of qs: low nibble = value of the even group, high nibble = value of the odd group
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/quant/codes.h"

namespace moonlit::q4_k {

inline constexpr size_t kBlockValues = 256;

struct Block {
  uint16_t d;          // F16
  uint16_t dmin;       // F16
  uint8_t scales[12];  // kernels/quant/k_scales.h
  uint8_t qs[128];     // value 64p + l: low nibble of qs[32p + l]; value 64p + 32 + l: its high nibble
};
static_assert(sizeof(Block) == 144);

void Dequantize(const uint8_t* bytes, float* values, size_t k);
void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k);
// One block as whole numbers (codes.h).
void Codes(const uint8_t* block, BlockCodes* codes);

}  // namespace moonlit::q4_k
