// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/iq4_xs.h"

#include "kernels/quant/block.h"
#include "kernels/quant/fit.h"
#include "kernels/quant/iq4_nl.h"
#include "kernels/quant/k_symmetric.h"

namespace moonlit::iq4_xs {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    for (size_t g = 0; g < 8; ++g) {
      const int low = (block.scales_l[g / 2] >> (4 * (g % 2))) & 15;
      const int high = (block.scales_h >> (2 * g)) & 3;
      const float scale = d * static_cast<float>((low | (high << 4)) - 32);
      for (size_t l = 0; l < 16; ++l) {
        const uint8_t pair = block.qs[16 * g + l];
        values[32 * g + l] = scale * static_cast<float>(iq4_nl::kLevels[pair & 15]);
        values[32 * g + 16 + l] = scale * static_cast<float>(iq4_nl::kLevels[pair >> 4]);
      }
    }
  }
}

void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k) {
  const fit::TableGrid grid(iq4_nl::kLevels);
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const float* weights = importance == nullptr ? nullptr : importance + i * kBlockValues;
    const KSymmetric found = EncodeKSymmetric<32>(values, weights, 32, grid);
    Block block = {};
    block.d = found.d;
    for (size_t g = 0; g < 8; ++g) {
      const int s = found.scales[g] + 32;
      block.scales_l[g / 2] = static_cast<uint8_t>(block.scales_l[g / 2] | ((s & 15) << (4 * (g % 2))));
      block.scales_h = static_cast<uint16_t>(block.scales_h | ((s >> 4) << (2 * g)));
    }
    for (size_t v = 0; v < 256; ++v) {
      const float scale = F32FromF16(found.d) * static_cast<float>(found.scales[v / 32]);
      const float ratio = scale != 0 ? values[v] / scale : 0.0f;
      uint8_t& byte = block.qs[16 * (v / 32) + v % 16];
      byte = static_cast<uint8_t>(byte | (grid.Index(ratio) << (4 * (v % 32 / 16))));
    }
    StoreBlock(block, bytes, i);
  }
}

void Codes(const uint8_t* b, BlockCodes* c) {
  codes::Begin(c, 256, 32, false);
  const int high = b[2] | b[3] << 8;
  for (int g = 0; g < 8; ++g) {
    const int scale = (b[4 + g / 2] >> (4 * (g % 2)) & 15) | (high >> (2 * g) & 3) << 4;
    c->scale[g] = codes::Half(b) * static_cast<float>(scale - 32);
    codes::Nibbles(b + 8 + 16 * g, c->code + 32 * g);
  }
  for (int i = 0; i < 256; ++i) c->code[i] = iq4_nl::kLevels[c->code[i]];
}

}  // namespace moonlit::iq4_xs
