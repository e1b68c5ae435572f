// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/q6_k.h"

#include "kernels/quant/block.h"

namespace moonlit::q6_k {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    for (size_t g = 0; g < 16; ++g) {
      const float scale = d * static_cast<float>(block.scales[g]);
      // Quarter j of a half: values 32j .. 32j + 31, of which this group is the first or the second sixteen.
      const size_t half = g / 8, j = g % 8 / 2, first = 16 * (g % 2);
      const uint8_t* ql = block.ql + 64 * half + 32 * (j % 2) + first;
      const uint8_t* qh = block.qh + 32 * half + first;
      for (size_t l = 0; l < 16; ++l) {
        const int low = (ql[l] >> (4 * (j / 2))) & 15;
        const int high = (qh[l] >> (2 * j)) & 3;
        values[16 * g + l] = scale * static_cast<float>((low | (high << 4)) - 32);
      }
    }
  }
}

}  // namespace moonlit::q6_k
