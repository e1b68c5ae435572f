// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/q4_1.h"

#include "kernels/quant/block.h"

namespace moonlit::q4_1 {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    const float m = F32FromF16(block.m);
    for (size_t l = 0; l < 16; ++l) {
      values[l] = static_cast<float>(block.qs[l] & 15) * d + m;
      values[l + 16] = static_cast<float>(block.qs[l] >> 4) * d + m;
    }
  }
}

}  // namespace moonlit::q4_1
