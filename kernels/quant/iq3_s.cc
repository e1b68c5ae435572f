// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/iq3_s.h"

#include "kernels/quant/block.h"
#include "kernels/quant/codebooks.h"

namespace moonlit::iq3_s {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    for (size_t p = 0; p < 64; ++p) {
      const int scale = block.scales[p / 16] >> (p / 8 % 2 * 4) & 15;
      const size_t point = block.points[p] | (block.high[p / 8] >> (p % 8) & 1) << 8;
      codebooks::Decode4(d * static_cast<float>(1 + 2 * scale), codebooks::kIq3SLevels, codebooks::kIq3SGrid[point],
                         block.signs[p / 2] >> (p % 2 * 4), values + 4 * p);
    }
  }
}

}  // namespace moonlit::iq3_s
