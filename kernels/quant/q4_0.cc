// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/q4_0.h"

#include "kernels/quant/block.h"

namespace moonlit::q4_0 {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    for (size_t l = 0; l < 16; ++l) {
      values[l] = static_cast<float>((block.qs[l] & 15) - 8) * d;
      values[l + 16] = static_cast<float>((block.qs[l] >> 4) - 8) * d;
    }
  }
}

}  // namespace moonlit::q4_0
