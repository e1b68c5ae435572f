// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/mxfp4.h"

#include "kernels/quant/block.h"

namespace moonlit::mxfp4 {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = HalfScale(block.e);
    for (size_t l = 0; l < 16; ++l) {
      values[l] = d * static_cast<float>(kLevels[block.qs[l] & 15]);
      values[l + 16] = d * static_cast<float>(kLevels[block.qs[l] >> 4]);
    }
  }
}

}  // namespace moonlit::mxfp4
