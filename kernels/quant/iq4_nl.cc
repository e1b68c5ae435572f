// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/iq4_nl.h"

#include "kernels/quant/block.h"

namespace moonlit::iq4_nl {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    for (size_t l = 0; l < 16; ++l) {
      values[l] = d * static_cast<float>(kLevels[block.qs[l] & 15]);
      values[l + 16] = d * static_cast<float>(kLevels[block.qs[l] >> 4]);
    }
  }
}

}  // namespace moonlit::iq4_nl
