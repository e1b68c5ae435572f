// SPDX-License-Identifier: Apache-2.0
// TQ2_0: 256 weights of -1, 0 or 1 with one F16 scale: x = d * q. 2.0625 bits a weight. (TQ2_0 in ggml; read only.)
//
//   byte  0 .. 63                                                            | 64 65
//         value 128h + 32j + l: q + 1 in bits 2j, 2j + 1 of byte 32h + l     | d F16
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit::tq2_0 {

inline constexpr size_t kBlockValues = 256;

struct Block {
  uint8_t qs[64];
  uint16_t d;  // F16
};
static_assert(sizeof(Block) == 66);

void Dequantize(const uint8_t* bytes, float* values, size_t k);

}  // namespace moonlit::tq2_0
