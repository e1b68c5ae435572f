// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/f16.h"

#include "kernels/quant/block.h"

namespace moonlit::f16 {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k; ++i) values[i] = F32FromF16(LoadBlock<Block>(bytes, i).value);
}

}  // namespace moonlit::f16
