// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/q2_k.h"

#include "kernels/quant/block.h"
#include "kernels/quant/k_affine.h"

namespace moonlit::q2_k {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    const float dmin = F32FromF16(block.dmin);
    for (size_t g = 0; g < 16; ++g) {
      const float scale = d * static_cast<float>(block.scales[g] & 15);
      const float minimum = dmin * static_cast<float>(block.scales[g] >> 4);
      const uint8_t* qs = block.qs + 32 * (g / 8) + 16 * (g % 2);
      const size_t shift = 2 * (g % 8 / 2);
      for (size_t l = 0; l < 16; ++l) values[16 * g + l] = scale * static_cast<float>((qs[l] >> shift) & 3) - minimum;
    }
  }
}

void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    KAffine found;
    EncodeKAffine<16>(values, importance == nullptr ? nullptr : importance + i * kBlockValues, 3, 15, &found);
    Block block = {};
    block.d = found.d;
    block.dmin = found.dmin;
    for (size_t g = 0; g < 16; ++g) block.scales[g] = static_cast<uint8_t>(found.scales[g] | (found.minima[g] << 4));
    for (size_t v = 0; v < 256; ++v) {
      uint8_t& byte = block.qs[32 * (v / 128) + v % 32];
      byte = static_cast<uint8_t>(byte | (found.q[v] << (2 * (v % 128 / 32))));
    }
    StoreBlock(block, bytes, i);
  }
}

void Codes(const uint8_t* b, BlockCodes* c) {
  codes::Begin(c, 256, 16, true);
  for (int g = 0; g < 16; ++g) {
    c->scale[g] = codes::Half(b + 80) * static_cast<float>(b[g] & 15);
    c->min[g] = codes::Half(b + 82) * static_cast<float>(b[g] >> 4);
  }
  for (int i = 0; i < 256; ++i) c->code[i] = codes::TwoBits(b + 16, i);
}

}  // namespace moonlit::q2_k
