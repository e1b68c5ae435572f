// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/iq3_xxs.h"

#include "kernels/quant/block.h"
#include "kernels/quant/codebooks.h"

namespace moonlit::iq3_xxs {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    for (size_t g = 0; g < 8; ++g) {
      const uint32_t signs = block.signs_and_scale[2 * g] | uint32_t{block.signs_and_scale[2 * g + 1]} << 16;
      const float scale = d * (0.5f + static_cast<float>(signs >> 28)) * 0.5f;
      for (size_t j = 0; j < 8; ++j) {
        const uint32_t eight = codebooks::SignsOf(signs >> (j / 2 * 7));
        codebooks::Decode4(scale, codebooks::kIq3XxsLevels, codebooks::kIq3XxsGrid[block.points[8 * g + j]],
                           eight >> (j % 2 * 4), values + 32 * g + 4 * j);
      }
    }
  }
}

}  // namespace moonlit::iq3_xxs
