// SPDX-License-Identifier: Apache-2.0
// IQ3_S: 256 weights in 8 groups of 32, each with a 4-bit scale under one F16; four weights are a point of a table of 512 with four
// signs: x = (d * (1 + 2 scale)) * point. 3.4375 bits a weight. (IQ3_S in ggml; read only.)
//
//   byte  0  1 | 2 .. 65                | 66 .. 73                | 74 .. 105               | 106 .. 109
//         d F16| low eight bits of the  | bit i of byte g: bit 8  | signs, a nibble a point,| scales of groups 2i
//              | numbers of 64 points   | of point 8g + i         | the low one first       | (low nibble), 2i + 1
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit::iq3_s {

inline constexpr size_t kBlockValues = 256;

struct Block {
  uint16_t d;  // F16
  uint8_t points[64];
  uint8_t high[8];
  uint8_t signs[32];
  uint8_t scales[4];
};
static_assert(sizeof(Block) == 110);

void Dequantize(const uint8_t* bytes, float* values, size_t k);

}  // namespace moonlit::iq3_s
