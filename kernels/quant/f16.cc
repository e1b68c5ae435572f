// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/f16.h"

#include "kernels/quant/block.h"

namespace moonlit::f16 {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k; ++i) values[i] = F32FromF16(LoadBlock<Block>(bytes, i).value);
}

void Quantize(const float* values, const float* /*importance*/, uint8_t* bytes, size_t k) {
  for (size_t i = 0; i < k; ++i) StoreBlock(Block{F16FromF32(values[i])}, bytes, i);
}

}  // namespace moonlit::f16
