// SPDX-License-Identifier: Apache-2.0
// IQ2_S: 256 weights in 16 groups of 16, each with a 4-bit scale under one F16; eight weights are a point of a table of 1024 with
// eight signs: x = (d * (0.5 + scale) * 0.25) * point. 2.5625 bits a weight. (IQ2_S in ggml; read only.)
//
//   byte  0  1 | 2 .. 33                | 34 .. 65        | 66 .. 73                        | 74 .. 81
//         d F16| low eight bits of the  | signs, a byte a | bits 8, 9 of points 4i to       | scales of groups 2i
//              | numbers of 32 points   | point           | 4i + 3, from bit 0 upwards      | (low nibble), 2i + 1
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit::iq2_s {

inline constexpr size_t kBlockValues = 256;

struct Block {
  uint16_t d;  // F16
  uint8_t points[32];
  uint8_t signs[32];
  uint8_t high[8];
  uint8_t scales[8];
};
static_assert(sizeof(Block) == 82);

void Dequantize(const uint8_t* bytes, float* values, size_t k);

}  // namespace moonlit::iq2_s
