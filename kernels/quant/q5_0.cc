// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/q5_0.h"

#include "kernels/quant/block.h"

namespace moonlit::q5_0 {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    for (size_t l = 0; l < 32; ++l) {
      const int low = l < 16 ? block.qs[l] & 15 : block.qs[l - 16] >> 4;
      const int high = (block.qh[l / 8] >> (l % 8)) & 1;
      values[l] = static_cast<float>((low | (high << 4)) - 16) * d;
    }
  }
}

}  // namespace moonlit::q5_0
