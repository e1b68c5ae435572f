// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/tq2_0.h"

#include "kernels/quant/block.h"

namespace moonlit::tq2_0 {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    const float levels[4] = {-d, d * 0.0f, d, d * 2.0f};
    float* out = values;
    for (size_t half = 0; half < 2; ++half) {
      for (int shift = 0; shift < 8; shift += 2) {
        for (size_t l = 0; l < 32; ++l) *out++ = levels[block.qs[32 * half + l] >> shift & 3];
      }
    }
  }
}

}  // namespace moonlit::tq2_0
