// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/q3_k.h"

#include "kernels/quant/block.h"

namespace moonlit::q3_k {

void UnpackScales(const uint8_t bytes[12], int8_t scales[16]) {
  for (int a = 0; a < 16; ++a) {
    const int low = (bytes[a % 8] >> (4 * (a / 8))) & 15;
    const int high = (bytes[8 + a % 4] >> (2 * (a / 4))) & 3;
    scales[a] = static_cast<int8_t>((low | (high << 4)) - 32);
  }
}

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    int8_t scales[16];
    UnpackScales(block.scales, scales);
    for (size_t g = 0; g < 16; ++g) {
      const float scale = d * static_cast<float>(scales[g]);
      const uint8_t* qs = block.qs + 32 * (g / 8) + 16 * (g % 2);
      const uint8_t* hmask = block.hmask + 16 * (g % 2);
      const size_t shift = 2 * (g % 8 / 2);
      for (size_t l = 0; l < 16; ++l) {
        const int low = (qs[l] >> shift) & 3;
        const int high = (hmask[l] >> (g / 2)) & 1;
        values[16 * g + l] = scale * static_cast<float>(low + 4 * high - 4);
      }
    }
  }
}

}  // namespace moonlit::q3_k
