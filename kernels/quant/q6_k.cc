// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/q6_k.h"

#include "kernels/quant/block.h"
#include "kernels/quant/fit.h"
#include "kernels/quant/k_symmetric.h"

namespace moonlit::q6_k {

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    for (size_t g = 0; g < 16; ++g) {
      const float scale = d * static_cast<float>(block.scales[g]);
      // Quarter j of a half: values 32j .. 32j + 31, of which this group is the first or the second sixteen.
      const size_t half = g / 8, j = g % 8 / 2, first = 16 * (g % 2);
      const uint8_t* ql = block.ql + 64 * half + 32 * (j % 2) + first;
      const uint8_t* qh = block.qh + 32 * half + first;
      for (size_t l = 0; l < 16; ++l) {
        const int low = (ql[l] >> (4 * (j / 2))) & 15;
        const int high = (qh[l] >> (2 * j)) & 3;
        values[16 * g + l] = scale * static_cast<float>((low | (high << 4)) - 32);
      }
    }
  }
}

void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k) {
  constexpr fit::LinearGrid grid{-32.0f, 31.0f};
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const float* weights = importance == nullptr ? nullptr : importance + i * kBlockValues;
    const KSymmetric found = EncodeKSymmetric<16>(values, weights, 128, grid);
    Block block = {};
    block.d = found.d;
    memcpy(block.scales, found.scales, 16);
    for (size_t v = 0; v < 256; ++v) {
      const float scale = F32FromF16(found.d) * static_cast<float>(found.scales[v / 16]);
      const float ratio = scale != 0 ? values[v] / scale : 0.0f;
      const int q = static_cast<int>(grid.Nearest(ratio)) + 32;
      const size_t half = v / 128, j = v % 128 / 32;
      uint8_t& low = block.ql[64 * half + 32 * (j % 2) + v % 32];
      uint8_t& high = block.qh[32 * half + v % 32];
      low = static_cast<uint8_t>(low | ((q & 15) << (4 * (j / 2))));
      high = static_cast<uint8_t>(high | ((q >> 4) << (2 * j)));
    }
    StoreBlock(block, bytes, i);
  }
}

void Codes(const uint8_t* b, BlockCodes* c) {
  codes::Begin(c, 256, 16, false);
  for (int g = 0; g < 16; ++g) c->scale[g] = codes::Half(b + 208) * static_cast<float>(static_cast<int8_t>(b[192 + g]));
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, l = i % 128;
    const int low = b[half * 64 + l % 64] >> (l / 64 * 4) & 15;
    const int high = b[128 + half * 32 + l % 32] >> (l / 32 * 2) & 3;
    c->code[i] = (low | high << 4) - 32;
  }
}

}  // namespace moonlit::q6_k
