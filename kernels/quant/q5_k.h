// SPDX-License-Identifier: Apache-2.0
// Q5_K: 256 weights in 8 groups of 32, each with a 6-bit scale and a 6-bit minimum under two F16 ones:
// x = (d * scale) * q - (dmin * min), q in 0..31. 5.5 bits a weight. (Q5_K in ggml.)
//
//   byte  0  1 | 2  3     | 4 .. 15            | 16 .. 47                     | 48 .. 175
//         d F16| dmin F16 | scales and minima, | qh: bit g of byte l is the   | qs: low four bits,
//              |          | see k_scales.h     | fifth bit of value l of      | laid out as in q4_k.h
//              |          |                    | group g                      |
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/quant/codes.h"

namespace moonlit::q5_k {

inline constexpr size_t kBlockValues = 256;

struct Block {
  uint16_t d;          // F16
  uint16_t dmin;       // F16
  uint8_t scales[12];  // kernels/quant/k_scales.h
  uint8_t qh[32];      // value 32g + l: bit g of qh[l]
  uint8_t qs[128];     // value 64p + l: low nibble of qs[32p + l]; value 64p + 32 + l: its high nibble
};
static_assert(sizeof(Block) == 176);

void Dequantize(const uint8_t* bytes, float* values, size_t k);
void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k);
// One block as whole numbers (codes.h).
void Codes(const uint8_t* block, BlockCodes* codes);

}  // namespace moonlit::q5_k
