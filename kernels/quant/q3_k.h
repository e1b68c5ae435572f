// SPDX-License-Identifier: Apache-2.0
// Q3_K: 256 weights in 16 groups of 16, each with a signed 6-bit scale under one F16: x = (d * (scale - 32)) * q,
// q in -4..3. 3.4375 bits a weight. (Q3_K in ggml.)
//
//   byte  0 .. 31                  | 32 .. 95                    | 96 .. 107     | 108 109
//         hmask: bit 2 of q + 4    | qs: bits 0, 1 of q + 4,     | 16 scales of  | d F16
//                                  | laid out as in q2_k.h       | 6 bits        |
//
//   scales, with aaaa the low four bits of scale a and AA its upper two:
//     byte 0 .. 3     8 above 0 ,  9 above 1,  10 above 2,  11 above 3       low bits, high nibble above low nibble
//     byte 4 .. 7     12 above 4,  13 above 5, 14 above 6,  15 above 7
//     byte 8 .. 11    upper bits of scales j, j + 4, j + 8, j + 12 from bit 0 upwards in byte 8 + j
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/quant/codes.h"

namespace moonlit::q3_k {

inline constexpr size_t kBlockValues = 256;

// The 16 scales of a block, without the 32 that the bytes add: -32 .. 31.
void UnpackScales(const uint8_t bytes[12], int8_t scales[16]);
void PackScales(const int8_t scales[16], uint8_t bytes[12]);

struct Block {
  uint8_t hmask[32];   // value 32j + l: bit j of hmask[l]
  uint8_t qs[64];      // value 128h + 32j + l: bits 2j, 2j + 1 of qs[32h + l]
  uint8_t scales[12];  // see above; 32 is added to each
  uint16_t d;          // F16
};
static_assert(sizeof(Block) == 110);

void Dequantize(const uint8_t* bytes, float* values, size_t k);
void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k);
// One block as whole numbers (codes.h).
void Codes(const uint8_t* block, BlockCodes* codes);

}  // namespace moonlit::q3_k
