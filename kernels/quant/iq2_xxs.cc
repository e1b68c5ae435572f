// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/iq2_xxs.h"

#include "kernels/quant/block.h"
#include "kernels/quant/codebooks.h"

namespace moonlit::iq2_xxs {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    for (size_t g = 0; g < 8; ++g) {
      const auto& group = block.groups[g];
      const uint32_t signs = group.signs_and_scale[0] | uint32_t{group.signs_and_scale[1]} << 16;
      const float scale = d * (0.5f + static_cast<float>(signs >> 28)) * 0.25f;
      for (size_t j = 0; j < 4; ++j) {
        codebooks::Decode8(scale, codebooks::kIq2XxsGrid[group.points[j]], codebooks::SignsOf(signs >> (7 * j)),
                           values + 32 * g + 8 * j);
      }
    }
  }
}

}  // namespace moonlit::iq2_xxs
