// SPDX-License-Identifier: Apache-2.0
// IQ1_M: 256 weights in 16 groups of 16, each with a 3-bit scale under one F16; eight weights are a point of the table of IQ1_S with
// a shift of its own: x = (d * (2 scale + 1)) * (point + shift). 1.75 bits a weight. (IQ1_M in ggml; read only.)
//
//   byte  0 .. 31                | 32 .. 47, a nibble a point, the low one first  | 48 .. 55, four words of 16 bits
//         low eight bits of the  | bits 0 .. 2: bits 8 .. 10 of its number        | word w: bits 3j .. 3j + 2: scale of group
//         numbers of 32 points   | bit 3: the shift is down                       | 4w + j; bits 12 .. 15: bits 4w .. of d (F16)
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit::iq1_m {

inline constexpr size_t kBlockValues = 256;

struct Block {
  uint8_t points[32];
  uint8_t high[16];
  uint16_t scales[4];
};
static_assert(sizeof(Block) == 56);

void Dequantize(const uint8_t* bytes, float* values, size_t k);

}  // namespace moonlit::iq1_m
