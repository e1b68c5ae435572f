// SPDX-License-Identifier: Apache-2.0
// Q6_K: 256 weights in 16 groups of 16, each with an int8 scale under one F16: x = (d * scale) * (q - 32), q in 0..63.
// 6.5625 bits a weight. (Q6_K in ggml.)
//
//   byte  0 .. 127              | 128 .. 191              | 192 .. 207      | 208 209
//         ql: low four bits     | qh: upper two bits      | 16 scales, int8 | d F16
//
//   each half of 128 values (64 bytes of ql, 32 of qh), for l in 0..31:
//     value l      low nibble of ql[l]         bits 0-1 of qh[l]
//     value l+32   low nibble of ql[l + 32]    bits 2-3
//     value l+64   high nibble of ql[l]        bits 4-5
//     value l+96   high nibble of ql[l + 32]   bits 6-7
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/quant/codes.h"

namespace moonlit::q6_k {

inline constexpr size_t kBlockValues = 256;

struct Block {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];  // group g = values 16g .. 16g + 15
  uint16_t d;         // F16
};
static_assert(sizeof(Block) == 210);

void Dequantize(const uint8_t* bytes, float* values, size_t k);
void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k);
// One block as whole numbers (codes.h).
void Codes(const uint8_t* block, BlockCodes* codes);

}  // namespace moonlit::q6_k
