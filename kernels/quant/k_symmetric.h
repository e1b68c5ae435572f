// SPDX-License-Identifier: Apache-2.0
// Encoding of the K formats without minimum: Q3_K, Q6_K, IQ4_XS. 256 values, x = (d * scale) * q, signed scales of few
// bits for groups of kGroup values, q on a grid.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/quant/fit.h"

namespace moonlit {

struct KSymmetric {
  uint16_t d;         // F16 bits
  int8_t scales[16];  // -scale_limit .. scale_limit - 1; one a group
};

// The rounded values themselves are left to the caller: grid.Nearest(x / (d * scale)). `importance`: [256] or null.
template <size_t kGroup, typename Grid>
inline KSymmetric EncodeKSymmetric(const float* values, const float* importance, int scale_limit, const Grid& grid) {
  constexpr size_t kGroups = 256 / kGroup;
  float x[256], w[256], scales[kGroups];
  fit::CopyClamped(values, 256, x);
  float largest = 0;
  for (size_t g = 0; g < kGroups; ++g) {
    fit::Weights<kGroup>(x + g * kGroup, importance == nullptr ? nullptr : importance + g * kGroup, w + g * kGroup);
    scales[g] = fit::Scale<kGroup>(x + g * kGroup, w + g * kGroup, grid);
    if (fabsf(scales[g]) > fabsf(largest)) largest = scales[g];
  }
  KSymmetric block = {};
  // The largest scale goes to the end of the range that reaches further.
  block.d = fit::SuperScaleBits(-largest / static_cast<float>(scale_limit));
  const float d = F32FromF16(block.d);
  if (d == 0) return block;
  for (size_t g = 0; g < kGroups; ++g) {
    const int nearest = static_cast<int>(fit::RoundNearest(
        fit::Clamp(scales[g] / d, -static_cast<float>(scale_limit), static_cast<float>(scale_limit - 1))));
    float best = INFINITY;
    for (int s = nearest - 1; s <= nearest + 1; ++s) {
      if (s < -scale_limit || s >= scale_limit) continue;
      const float scale = d * static_cast<float>(s);
      const float inverse = s != 0 ? 1.0f / scale : 0.0f;
      const float error = fit::Sum<kGroup>([&](size_t i) {
        const float value = x[g * kGroup + i];
        const float e = value - scale * grid.Nearest(value * inverse);
        return w[g * kGroup + i] * e * e;
      });
      if (error < best) {
        best = error;
        block.scales[g] = static_cast<int8_t>(s);
      }
    }
  }
  return block;
}

}  // namespace moonlit
