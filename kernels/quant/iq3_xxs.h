// SPDX-License-Identifier: Apache-2.0
// IQ3_XXS: 256 weights in 8 groups of 32, each with a 4-bit scale under one F16; four weights are a point of a table of 256, and
// eight have seven bits of signs: x = (d * (0.5 + scale) * 0.5) * point. 3.0625 bits a weight. (IQ3_XXS in ggml; read only.)
//
//   byte  0  1 | 2 .. 65              | 66 .. 69                                              | 70 ..
//         d F16| numbers of 64 points | group 0: bits 7j .. 7j + 6: signs of points 2j, 2j + 1| group 1
//              |                      | bits 28 .. 31: scale                                  | and so on
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit::iq3_xxs {

inline constexpr size_t kBlockValues = 256;

struct Block {
  uint16_t d;  // F16
  uint8_t points[64];
  uint16_t signs_and_scale[16];  // two a group, low half first
};
static_assert(sizeof(Block) == 98);

void Dequantize(const uint8_t* bytes, float* values, size_t k);

}  // namespace moonlit::iq3_xxs
