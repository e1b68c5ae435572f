// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/q3_k.h"

#include "kernels/quant/block.h"
#include "kernels/quant/fit.h"
#include "kernels/quant/k_symmetric.h"

namespace moonlit::q3_k {

void UnpackScales(const uint8_t bytes[12], int8_t scales[16]) {
  for (int a = 0; a < 16; ++a) {
    const int low = (bytes[a % 8] >> (4 * (a / 8))) & 15;
    const int high = (bytes[8 + a % 4] >> (2 * (a / 4))) & 3;
    scales[a] = static_cast<int8_t>((low | (high << 4)) - 32);
  }
}

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    int8_t scales[16];
    UnpackScales(block.scales, scales);
    for (size_t g = 0; g < 16; ++g) {
      const float scale = d * static_cast<float>(scales[g]);
      const uint8_t* qs = block.qs + 32 * (g / 8) + 16 * (g % 2);
      const uint8_t* hmask = block.hmask + 16 * (g % 2);
      const size_t shift = 2 * (g % 8 / 2);
      for (size_t l = 0; l < 16; ++l) {
        const int low = (qs[l] >> shift) & 3;
        const int high = (hmask[l] >> (g / 2)) & 1;
        values[16 * g + l] = scale * static_cast<float>(low + 4 * high - 4);
      }
    }
  }
}

void PackScales(const int8_t scales[16], uint8_t bytes[12]) {
  memset(bytes, 0, 12);
  for (int a = 0; a < 16; ++a) {
    const int s = scales[a] + 32;
    bytes[a % 8] = static_cast<uint8_t>(bytes[a % 8] | ((s & 15) << (4 * (a / 8))));
    bytes[8 + a % 4] = static_cast<uint8_t>(bytes[8 + a % 4] | ((s >> 4) << (2 * (a / 4))));
  }
}

void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k) {
  constexpr fit::LinearGrid grid{-4.0f, 3.0f};
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const float* weights = importance == nullptr ? nullptr : importance + i * kBlockValues;
    const KSymmetric found = EncodeKSymmetric<16>(values, weights, 32, grid);
    Block block = {};
    block.d = found.d;
    PackScales(found.scales, block.scales);
    for (size_t v = 0; v < 256; ++v) {
      const float scale = F32FromF16(found.d) * static_cast<float>(found.scales[v / 16]);
      const float ratio = scale != 0 ? values[v] / scale : 0.0f;
      const int q = static_cast<int>(grid.Nearest(ratio)) + 4;
      uint8_t& low = block.qs[32 * (v / 128) + v % 32];
      uint8_t& high = block.hmask[v % 32];
      low = static_cast<uint8_t>(low | ((q & 3) << (2 * (v % 128 / 32))));
      high = static_cast<uint8_t>(high | ((q >> 2) << (v / 32)));
    }
    StoreBlock(block, bytes, i);
  }
}

void Codes(const uint8_t* b, BlockCodes* c) {
  codes::Begin(c, 256, 16, false);
  const uint8_t* s = b + 96;
  for (int g = 0; g < 16; ++g) {
    const int low = s[g % 8] >> (g / 8 * 4) & 15;
    const int high = s[8 + g % 4] >> (g / 4 * 2) & 3;
    c->scale[g] = codes::Half(b + 108) * static_cast<float>((low | high << 4) - 32);
  }
  for (int i = 0; i < 256; ++i) c->code[i] = codes::TwoBits(b + 32, i) + 4 * (b[i % 32] >> (i / 32) & 1) - 4;
}

}  // namespace moonlit::q3_k
