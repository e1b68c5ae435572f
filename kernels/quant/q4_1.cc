// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/q4_1.h"

#include "kernels/quant/block.h"
#include "kernels/quant/fit.h"

namespace moonlit::q4_1 {
namespace {

// From the smallest value to the largest.
fit::Line SpanningLine(const float* x) {
  float low = x[0], high = x[0];
  for (size_t i = 1; i < kBlockValues; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  return {(high - low) / 15.0f, low};
}

fit::Line SearchLine(const float* values, const float* importance) {
  float x[kBlockValues], w[kBlockValues];
  fit::CopyClamped(values, kBlockValues, x);
  fit::Weights<kBlockValues>(x, importance, w);
  return fit::BestLine<kBlockValues>(x, w, 15, fit::Offset::kAny);
}

}  // namespace

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = F32FromF16(block.d);
    const float m = F32FromF16(block.m);
    for (size_t l = 0; l < 16; ++l) {
      values[l] = static_cast<float>(block.qs[l] & 15) * d + m;
      values[l + 16] = static_cast<float>(block.qs[l] >> 4) * d + m;
    }
  }
}

void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    fit::Line line = importance == nullptr ? SpanningLine(values) : SearchLine(values, importance + i * kBlockValues);
    Block block = {};
    block.d = fit::ScaleBits(line.scale);
    block.m = fit::ScaleBits(line.offset);
    if (importance != nullptr) line = {F32FromF16(block.d), F32FromF16(block.m)};
    const float inverse = line.scale > 1e-37f ? 1.0f / line.scale : 0.0f;
    for (size_t l = 0; l < 32; ++l) {
      const int q = static_cast<int>(fit::Clamp((values[l] - line.offset) * inverse + 0.5f, 0.0f, 15.0f));
      block.qs[l % 16] = static_cast<uint8_t>(block.qs[l % 16] | (q << (4 * (l / 16))));
    }
    StoreBlock(block, bytes, i);
  }
}

void Codes(const uint8_t* b, BlockCodes* c) {
  codes::Begin(c, 32, 32, true);
  c->scale[0] = codes::Half(b);
  c->min[0] = -codes::Half(b + 2);
  codes::Nibbles(b + 4, c->code);
}

}  // namespace moonlit::q4_1
