// SPDX-License-Identifier: Apache-2.0
// MXFP4: 32 weights as FP4 numbers (E2M1) with a power of two as scale, x = 2^(e - 127) * fp4. 4.25 bits a weight.
// OCP Microscaling Formats 1.0, section 5.3.3 (E2M1) and 5.4.1 (E8M0); the order of nibbles is ggml's.
//
//   byte  0 | 1          2          ...  16
//         e | q16 q0     q17 q1          q31 q15        high nibble, low nibble
//
//   e = 255 means NaN, and so does every value of its block. (ggml reads it as 2^128; nothing writes it but for a NaN.)
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/float16.h"
#include "kernels/quant/codes.h"

namespace moonlit::mxfp4 {

inline constexpr size_t kBlockValues = 32;

// The 16 FP4 numbers times two: sign in bit 3. Products must use half the scale then.
inline constexpr int8_t kLevels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 2^(e - 128), the scale that belongs to kLevels; NaN for 255. Exact: e = 0 and 1 give subnormals.
static inline float HalfScale(uint8_t e) {
  return e < 2      ? F32FromBits(0x00200000u << e)
         : e == 255 ? F32FromE8M0(e)
                    : F32FromBits(static_cast<uint32_t>(e - 1) << 23);
}

struct Block {
  uint8_t e;
  uint8_t qs[16];  // value i in the low nibble of qs[i], value i + 16 in the high one
};
static_assert(sizeof(Block) == 17);

void Dequantize(const uint8_t* bytes, float* values, size_t k);
void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k);
// One block as whole numbers (codes.h).
void Codes(const uint8_t* block, BlockCodes* codes);

}  // namespace moonlit::mxfp4
