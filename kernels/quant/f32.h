// SPDX-License-Identifier: Apache-2.0
// F32: IEEE 754 binary32, little-endian. 32 bits a weight. The bits are copied as they are.
//
//   byte  0        1        2        3
//         mmmmmmmm mmmmmmmm emmmmmmm seeeeeee
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit::f32 {

inline constexpr size_t kBlockValues = 1;

struct Block {
  float value;
};
static_assert(sizeof(Block) == 4);

void Dequantize(const uint8_t* bytes, float* values, size_t k);
void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k);

}  // namespace moonlit::f32
