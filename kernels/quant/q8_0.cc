// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/q8_0.h"

#include "kernels/quant/block.h"
#include "kernels/quant/fit.h"

namespace moonlit::q8_0 {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    for (size_t l = 0; l < 32; ++l) values[l] = static_cast<float>(block.qs[l]) * d;
  }
}

void Quantize(const float* values, const float* /*importance*/, uint8_t* bytes, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const float scale = fit::LargestMagnitude(values, kBlockValues) / 127.0f;
    const float inverse = scale > 1e-37f ? 1.0f / scale : 0.0f;
    Block block;
    block.d = fit::ScaleBits(scale);
    for (size_t l = 0; l < 32; ++l) {
      const float v = fit::Clamp(values[l] * inverse, -127.0f, 127.0f);
      // Nearest, ties away from zero. Not v + 0.5: that sum itself may round up to the next integer.
      const float whole = truncf(v);
      block.qs[l] = static_cast<int8_t>(whole + (fabsf(v - whole) >= 0.5f ? copysignf(1.0f, v) : 0.0f));
    }
    StoreBlock(block, bytes, i);
  }
}

void Codes(const uint8_t* b, BlockCodes* c) {
  codes::Begin(c, 32, 32, false);
  c->scale[0] = codes::Half(b);
  for (int i = 0; i < 32; ++i) c->code[i] = static_cast<int8_t>(b[2 + i]);
}

}  // namespace moonlit::q8_0
