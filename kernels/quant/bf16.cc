// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/bf16.h"

#include "kernels/quant/block.h"

namespace moonlit::bf16 {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k; ++i) values[i] = F32FromBF16(LoadBlock<Block>(bytes, i).value);
}

void Quantize(const float* values, const float* /*importance*/, uint8_t* bytes, size_t k) {
  for (size_t i = 0; i < k; ++i) StoreBlock(Block{BF16FromF32(values[i])}, bytes, i);
}

}  // namespace moonlit::bf16
