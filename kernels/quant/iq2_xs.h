// SPDX-License-Identifier: Apache-2.0
// IQ2_XS: 256 weights in 16 groups of 16, each with a 4-bit scale under one F16; eight weights are a point of a table of 512 with
// seven bits of signs: x = (d * (0.5 + scale) * 0.25) * point. 2.3125 bits a weight. (IQ2_XS in ggml; read only.)
//
//   byte  0  1 | 2 .. 65                                | 66 .. 73
//         d F16| 32 points: number in bits 0 .. 8,      | scales of groups 2i (low nibble) and 2i + 1
//              | signs in bits 9 .. 15                  |
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit::iq2_xs {

inline constexpr size_t kBlockValues = 256;

struct Block {
  uint16_t d;  // F16
  uint16_t points[32];
  uint8_t scales[8];
};
static_assert(sizeof(Block) == 74);

void Dequantize(const uint8_t* bytes, float* values, size_t k);

}  // namespace moonlit::iq2_xs
