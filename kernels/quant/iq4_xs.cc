// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/iq4_xs.h"

#include "kernels/quant/block.h"
#include "kernels/quant/iq4_nl.h"

namespace moonlit::iq4_xs {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    for (size_t g = 0; g < 8; ++g) {
      const int low = (block.scales_l[g / 2] >> (4 * (g % 2))) & 15;
      const int high = (block.scales_h >> (2 * g)) & 3;
      const float scale = d * static_cast<float>((low | (high << 4)) - 32);
      for (size_t l = 0; l < 16; ++l) {
        const uint8_t pair = block.qs[16 * g + l];
        values[32 * g + l] = scale * static_cast<float>(iq4_nl::kLevels[pair & 15]);
        values[32 * g + 16 + l] = scale * static_cast<float>(iq4_nl::kLevels[pair >> 4]);
      }
    }
  }
}

}  // namespace moonlit::iq4_xs
