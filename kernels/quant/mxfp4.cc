// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/mxfp4.h"

#include "kernels/quant/block.h"
#include "kernels/quant/fit.h"

namespace moonlit::mxfp4 {
namespace {

// OCP Microscaling Formats 1.0, section 6.3: the exponent of the largest value less that of the largest FP4 number,
// 2^2.
uint8_t ExponentFor(float largest) {
  if (largest == 0) return 0;
  const int e = ilogbf(largest < 0x1p127f ? largest : 0x1p127f) - 2 + 127;
  return static_cast<uint8_t>(e < 0 ? 0 : e);
}

// The first of the nearest levels; FP4 has two zeros and the positive one comes first.
int Nearest(float value, float d) {
  int best = 0;
  float best_error = INFINITY;
  for (int q = 0; q < 16; ++q) {
    const float error = fabsf(d * static_cast<float>(kLevels[q]) - value);
    if (error < best_error) {
      best_error = error;
      best = q;
    }
  }
  return best;
}

}  // namespace

void Dequantize(const uint8_t* bytes, float* values, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    const Block block = LoadBlock<Block>(bytes, i);
    const float d = HalfScale(block.e);
    for (size_t l = 0; l < 16; ++l) {
      values[l] = d * static_cast<float>(kLevels[block.qs[l] & 15]);
      values[l + 16] = d * static_cast<float>(kLevels[block.qs[l] >> 4]);
    }
  }
}

void Quantize(const float* values, const float* /*importance*/, uint8_t* bytes, size_t k) {
  for (size_t i = 0; i < k / kBlockValues; ++i, values += kBlockValues) {
    Block block = {};
    block.e = ExponentFor(fit::LargestMagnitude(values, kBlockValues));
    const float d = HalfScale(block.e);
    for (size_t l = 0; l < 32; ++l) {
      block.qs[l % 16] = static_cast<uint8_t>(block.qs[l % 16] | (Nearest(values[l], d) << (4 * (l / 16))));
    }
    StoreBlock(block, bytes, i);
  }
}

void Codes(const uint8_t* b, BlockCodes* c) {
  codes::Begin(c, 32, 32, false);
  c->scale[0] = b[0] == 255 ? NAN : ldexpf(1.0f, b[0] - 128);
  codes::Nibbles(b + 1, c->code);
  for (int i = 0; i < 32; ++i) c->code[i] = kLevels[c->code[i]];
}

}  // namespace moonlit::mxfp4
