// SPDX-License-Identifier: Apache-2.0
// IQ2_XXS: 256 weights in 8 groups of 32, each with a 4-bit scale under one F16; eight weights are a point of a table of 256 with
// seven bits of signs: x = (d * (0.5 + scale) * 0.25) * point. 2.0625 bits a weight. (IQ2_XXS in ggml; read only.)
//
//   byte  0  1 | 2 .. 5                   | 6 .. 9                                     | 10 ..
//         d F16| group 0: numbers of its  | bits 7j .. 7j + 6: signs of point j        | group 1
//              | four points              | bits 28 .. 31: scale                       | and so on
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit::iq2_xxs {

inline constexpr size_t kBlockValues = 256;

struct Block {
  uint16_t d;  // F16
  struct {
    uint8_t points[4];
    uint16_t signs_and_scale[2];  // low half first
  } groups[8];
};
static_assert(sizeof(Block) == 66);

void Dequantize(const uint8_t* bytes, float* values, size_t k);

}  // namespace moonlit::iq2_xxs
