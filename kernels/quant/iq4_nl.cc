// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/iq4_nl.h"

#include "kernels/quant/block.h"
#include "kernels/quant/fit.h"

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

void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k) {
  const fit::TableGrid grid(kLevels);
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    float x[kBlockValues], w[kBlockValues];
    fit::CopyClamped(values, kBlockValues, x);
    fit::Weights<kBlockValues>(x, importance == nullptr ? nullptr : importance + i * kBlockValues, w);
    Block block = {};
    block.d = fit::ScaleBits(fit::Scale<kBlockValues>(x, w, grid));
    const float d = F32FromF16(block.d);
    for (size_t l = 0; l < 32; ++l) {
      const uint8_t index = grid.Index(d != 0 ? values[l] / d : 0.0f);
      block.qs[l % 16] = static_cast<uint8_t>(block.qs[l % 16] | (index << (4 * (l / 16))));
    }
    StoreBlock(block, bytes, i);
  }
}

void Codes(const uint8_t* b, BlockCodes* c) {
  codes::Begin(c, 32, 32, false);
  c->scale[0] = codes::Half(b);
  codes::Nibbles(b + 2, c->code);
  for (int i = 0; i < 32; ++i) c->code[i] = kLevels[c->code[i]];
}

}  // namespace moonlit::iq4_nl
