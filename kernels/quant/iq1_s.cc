// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/iq1_s.h"

#include "kernels/quant/block.h"
#include "kernels/quant/codebooks.h"

namespace moonlit::iq1_s {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    for (size_t p = 0; p < 32; ++p) {
      const uint16_t high = block.high[p / 4];
      const float scale = d * static_cast<float>(2 * (high >> 12 & 7) + 1);
      const size_t point = block.points[p] | (high >> (p % 4 * 3) & 7) << 8;
      codebooks::DecodeShifted8(scale, codebooks::kIq1Grid[point],
                                (high & 0x8000) != 0 ? -codebooks::kIq1Shift : codebooks::kIq1Shift, values + 8 * p);
    }
  }
}

}  // namespace moonlit::iq1_s
