// SPDX-License-Identifier: Apache-2.0
// IQ4_NL: 32 weights with one scale and a table of 16 levels that lie closer near zero: x = d * kLevels[q]. 4.5 bits a
// weight. (IQ4_NL in ggml.)
//
//   byte  0  1 | 2          3          ...  17
//         d F16| q16 q0     q17 q1          q31 q15        high nibble, low nibble
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/quant/codes.h"

namespace moonlit::iq4_nl {

inline constexpr size_t kBlockValues = 32;

// Not linear: fitted by ggml's authors to the distribution of weights; IQ4_XS uses it too.
inline constexpr int8_t kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

struct Block {
  uint16_t d;      // F16
  uint8_t qs[16];  // value i in the low nibble of qs[i], value i + 16 in the high one
};
static_assert(sizeof(Block) == 18);

void Dequantize(const uint8_t* bytes, float* values, size_t k);
void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k);
// One block as whole numbers (codes.h).
void Codes(const uint8_t* block, BlockCodes* codes);

}  // namespace moonlit::iq4_nl
