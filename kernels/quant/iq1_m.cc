// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/iq1_m.h"

#include "kernels/quant/block.h"
#include "kernels/quant/codebooks.h"

namespace moonlit::iq1_m {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    uint32_t bits = 0;
    for (size_t w = 0; w < 4; ++w) bits |= static_cast<uint32_t>(block.scales[w] >> 12) << (4 * w);
    const float d = F32FromF16(static_cast<uint16_t>(bits));
    for (size_t p = 0; p < 32; ++p) {
      const int high = block.high[p / 2] >> (p % 2 * 4);
      const float scale = d * static_cast<float>(2 * (block.scales[p / 8] >> (p / 2 % 4 * 3) & 7) + 1);
      const size_t point = block.points[p] | (high & 7) << 8;
      codebooks::DecodeShifted8(scale, codebooks::kIq1Grid[point],
                                (high & 8) != 0 ? -codebooks::kIq1Shift : codebooks::kIq1Shift, values + 8 * p);
    }
  }
}

}  // namespace moonlit::iq1_m
