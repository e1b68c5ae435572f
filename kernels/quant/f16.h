// SPDX-License-Identifier: Apache-2.0
// F16: IEEE 754 binary16, little-endian. 16 bits a weight. Encoding rounds to nearest, ties to even; values from 65520
// up become infinities.
//
//   byte  0        1
//         mmmmmmmm seeeeemm
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit::f16 {

inline constexpr size_t kBlockValues = 1;

struct Block {
  uint16_t value;
};
static_assert(sizeof(Block) == 2);

void Dequantize(const uint8_t* bytes, float* values, size_t k);
void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k);

}  // namespace moonlit::f16
