// SPDX-License-Identifier: Apache-2.0
// IQ1_S: 256 weights in 8 groups of 32, each with a 3-bit scale under one F16 and a shift of 1/8 up or down; eight weights are a
// point of a table of 2048 with values -1, 0, 1: x = (d * (2 scale + 1)) * (point + shift). 1.5625 bits a weight. (IQ1_S in ggml;
// read only.)
//
//   byte  0  1 | 2 .. 33                | 34 .. 49, 16 bits a group
//         d F16| low eight bits of the  | bits 3j .. 3j + 2: bits 8 .. 10 of the number of point j; bits 12 .. 14: scale;
//              | numbers of 32 points   | bit 15: the shift is down
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit::iq1_s {

inline constexpr size_t kBlockValues = 256;

struct Block {
  uint16_t d;  // F16
  uint8_t points[32];
  uint16_t high[8];
};
static_assert(sizeof(Block) == 50);

void Dequantize(const uint8_t* bytes, float* values, size_t k);

}  // namespace moonlit::iq1_s
