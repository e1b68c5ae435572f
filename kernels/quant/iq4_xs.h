// SPDX-License-Identifier: Apache-2.0
// IQ4_XS: 256 weights in 8 groups of 32, each with a signed 6-bit scale under one F16, levels of iq4_nl.h:
// x = (d * (scale - 32)) * kLevels[q]. 4.25 bits a weight. (IQ4_XS in ggml.)
//
//   byte  0  1 | 2  3                      | 4 .. 7                        | 8 .. 23    24 .. 39   ...  120 .. 135
//         d F16| scales_h: bits 2g, 2g + 1 | scales_l: low four bits of    | group 0    group 1         group 7
//              | = upper bits of scale g   | scales 2i (low nibble), 2i + 1| each as in iq4_nl.h
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/quant/codes.h"

namespace moonlit::iq4_xs {

inline constexpr size_t kBlockValues = 256;

struct Block {
  uint16_t d;  // F16
  uint16_t scales_h;
  uint8_t scales_l[4];  // 32 is added to each scale
  uint8_t qs[128];      // value 32g + l: low nibble of qs[16g + l]; value 32g + 16 + l: its high nibble
};
static_assert(sizeof(Block) == 136);

void Dequantize(const uint8_t* bytes, float* values, size_t k);
void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k);
// One block as whole numbers (codes.h).
void Codes(const uint8_t* block, BlockCodes* codes);

}  // namespace moonlit::iq4_xs
