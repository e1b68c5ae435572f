// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/iq2_s.h"

#include "kernels/quant/block.h"
#include "kernels/quant/codebooks.h"

namespace moonlit::iq2_s {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    for (size_t p = 0; p < 32; ++p) {
      const float scale = d * (0.5f + static_cast<float>(block.scales[p / 4] >> (p / 2 % 2 * 4) & 15)) * 0.25f;
      const size_t point = block.points[p] | (block.high[p / 4] >> (p % 4 * 2) & 3) << 8;
      codebooks::Decode8(scale, codebooks::kIq2SGrid[point], block.signs[p], values + 8 * p);
    }
  }
}

}  // namespace moonlit::iq2_s
