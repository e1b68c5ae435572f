// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/q5_k.h"

#include "kernels/quant/block.h"
#include "kernels/quant/k_affine.h"
#include "kernels/quant/k_scales.h"

namespace moonlit::q5_k {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    const float dmin = F32FromF16(block.dmin);
    const KScales s = UnpackKScales(block.scales);
    for (size_t g = 0; g < 8; ++g) {
      const float scale = d * static_cast<float>(s.scales[g]);
      const float minimum = dmin * static_cast<float>(s.minima[g]);
      const uint8_t* qs = block.qs + 32 * (g / 2);
      const size_t shift = 4 * (g % 2);
      for (size_t l = 0; l < 32; ++l) {
        const int low = (qs[l] >> shift) & 15;
        const int high = (block.qh[l] >> g) & 1;
        values[32 * g + l] = scale * static_cast<float>(low | (high << 4)) - minimum;
      }
    }
  }
}

void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    KAffine found;
    EncodeKAffine<32>(values, importance == nullptr ? nullptr : importance + i * kBlockValues, 31, 63, &found);
    Block block = {};
    block.d = found.d;
    block.dmin = found.dmin;
    KScales s;
    memcpy(s.scales, found.scales, 8);
    memcpy(s.minima, found.minima, 8);
    PackKScales(s, block.scales);
    for (size_t v = 0; v < 256; ++v) {
      uint8_t& byte = block.qs[32 * (v / 64) + v % 32];
      byte = static_cast<uint8_t>(byte | ((found.q[v] & 15) << (4 * (v % 64 / 32))));
      block.qh[v % 32] = static_cast<uint8_t>(block.qh[v % 32] | ((found.q[v] >> 4) << (v / 32)));
    }
    StoreBlock(block, bytes, i);
  }
}

void Codes(const uint8_t* b, BlockCodes* c) {
  codes::Begin(c, 256, 32, true);
  codes::SixBitScales(b, c);
  for (int i = 0; i < 256; ++i) {
    c->code[i] = (b[48 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15) + 16 * (b[16 + i % 32] >> (i / 32) & 1);
  }
}

}  // namespace moonlit::q5_k
