// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/tq1_0.h"

#include "kernels/quant/block.h"

namespace moonlit::tq1_0 {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    size_t v = 0;
    const auto decode = [&](const uint8_t* from, size_t count, int digits) {
      int power = 1;
      for (int n = 0; n < digits; ++n, power *= 3) {
        for (size_t l = 0; l < count; ++l) {
          const int fraction = from[l] * power & 255;
          values[v++] = d * static_cast<float>((fraction * 3 >> 8) - 1);
        }
      }
    };
    decode(block.qs, 32, 5);
    decode(block.qs + 32, 16, 5);
    decode(block.qh, 4, 4);
  }
}

}  // namespace moonlit::tq1_0
