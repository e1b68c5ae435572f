// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/q4_0.h"

#include "kernels/quant/block.h"
#include "kernels/quant/fit.h"

namespace moonlit::q4_0 {
namespace {

// The value of largest magnitude, with its sign; the first one if there are several.
float ExtremeValue(const float* x) {
  float extreme = 0;
  for (size_t i = 0; i < kBlockValues; ++i) extreme = fabsf(x[i]) > fabsf(extreme) ? x[i] : extreme;
  return extreme;
}

// Zero also where the inverse would overflow: F16 rounds such a scale to zero anyway.
float InverseOrZero(float scale) { return fabsf(scale) > 1e-37f ? 1.0f / scale : 0.0f; }

float SearchScale(const float* values, const float* importance) {
  float x[kBlockValues], w[kBlockValues];
  fit::CopyClamped(values, kBlockValues, x);
  fit::Weights<kBlockValues>(x, importance, w);
  return fit::Scale<kBlockValues>(x, w, fit::LinearGrid{-8.0f, 7.0f});
}

}  // namespace

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    for (size_t l = 0; l < 16; ++l) {
      values[l] = static_cast<float>((block.qs[l] & 15) - 8) * d;
      values[l + 16] = static_cast<float>((block.qs[l] >> 4) - 8) * d;
    }
  }
}

void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    float scale, inverse;
    if (importance == nullptr) {
      scale = ExtremeValue(values) / -8.0f;
      inverse = InverseOrZero(scale);
    } else {
      scale = SearchScale(values, importance + i * kBlockValues);
      inverse = InverseOrZero(F32FromF16(fit::ScaleBits(scale)));
    }
    Block block = {};
    block.d = fit::ScaleBits(scale);
    for (size_t l = 0; l < 32; ++l) {
      // + 0.5 and cutting off: nearest, ties upwards.
      const int q = static_cast<int>(fit::Clamp(values[l] * inverse + 8.5f, 0.0f, 15.0f));
      block.qs[l % 16] = static_cast<uint8_t>(block.qs[l % 16] | (q << (4 * (l / 16))));
    }
    StoreBlock(block, bytes, i);
  }
}

void Codes(const uint8_t* b, BlockCodes* c) {
  codes::Begin(c, 32, 32, false);
  c->scale[0] = codes::Half(b);
  codes::Nibbles(b + 2, c->code);
  for (int i = 0; i < 32; ++i) c->code[i] -= 8;
}

}  // namespace moonlit::q4_0
