// SPDX-License-Identifier: Apache-2.0
// Q8_0: 32 weights with one scale, x = d * q, q in -127..127 (-128 is decoded, never written). 8.5 bits a weight.
// (Q8_0 in ggml.)
//
//   byte  0  1 | 2    3    ...  33
//         d F16| q0   q1        q31      int8
//
// Encoding: d = max|x| / 127, q rounded to nearest, ties away from zero. Importance is not looked at: at eight bits a
// search gains nothing that can be measured.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/quant/codes.h"

namespace moonlit::q8_0 {

inline constexpr size_t kBlockValues = 32;

struct Block {
  uint16_t d;  // F16
  int8_t qs[32];
};
static_assert(sizeof(Block) == 34);

void Dequantize(const uint8_t* bytes, float* values, size_t k);
void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k);
// One block as whole numbers (codes.h).
void Codes(const uint8_t* block, BlockCodes* codes);

}  // namespace moonlit::q8_0
