// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/k_affine.h"

#include "kernels/quant/fit.h"

namespace moonlit {
namespace {

using fit::Line;

uint8_t RoundTo(float value, int high) {
  return static_cast<uint8_t>(fit::RoundNearest(fit::Clamp(value, 0.0f, static_cast<float>(high))));
}

template <size_t kGroup>
struct Search {
  static constexpr size_t kGroups = 256 / kGroup;

  float x[256], w[256];
  float q_high;
  int scale_high;
  KAffine* block;

  Line LineOf(size_t g) const {
    return {F32FromF16(block->d) * static_cast<float>(block->scales[g]),
            -(F32FromF16(block->dmin) * static_cast<float>(block->minima[g]))};
  }

  float GroupError(size_t g) const { return fit::LineError<kGroup>(x + g * kGroup, w + g * kGroup, LineOf(g), q_high); }

  // Rounds the groups' lines to multiples of d and dmin, then looks at the neighbours: with few bits the nearest
  // multiple of each is often not the best pair.
  float RoundLines(const Line* lines) {
    const float d = F32FromF16(block->d), dmin = F32FromF16(block->dmin);
    float total = 0;
    for (size_t g = 0; g < kGroups; ++g) {
      const int scale = RoundTo(d > 0 ? lines[g].scale / d : 0, scale_high);
      const int minimum = RoundTo(dmin > 0 ? -lines[g].offset / dmin : 0, scale_high);
      float best = INFINITY;
      uint8_t best_scale = 0, best_minimum = 0;
      for (int s = scale - 1; s <= scale + 1; ++s) {
        for (int m = minimum - 1; m <= minimum + 1; ++m) {
          if (s < 0 || s > scale_high || m < 0 || m > scale_high) continue;
          block->scales[g] = static_cast<uint8_t>(s);
          block->minima[g] = static_cast<uint8_t>(m);
          const float error = GroupError(g);
          if (error < best) {
            best = error;
            best_scale = block->scales[g];
            best_minimum = block->minima[g];
          }
        }
      }
      block->scales[g] = best_scale;
      block->minima[g] = best_minimum;
      total += best;
    }
    return total;
  }

  void RoundValues() {
    for (size_t g = 0; g < kGroups; ++g) {
      const Line line = LineOf(g);
      const float inverse = line.scale > 0 ? 1.0f / line.scale : 0.0f;
      for (size_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
        block->q[i] = static_cast<uint8_t>(fit::RoundNearest(fit::Clamp((x[i] - line.offset) * inverse, 0.0f, q_high)));
      }
    }
  }

  // With scales, minima and q fixed, d and dmin have one best pair; taken if it is better after rounding to F16.
  void ImproveSuperScales(float error) {
    RoundValues();
    double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
    for (size_t i = 0; i < 256; ++i) {
      const double a = double{static_cast<float>(block->scales[i / kGroup])} * block->q[i];
      const double b = -double{static_cast<float>(block->minima[i / kGroup])};
      aa += w[i] * a * a;
      ab += w[i] * a * b;
      bb += w[i] * b * b;
      xa += w[i] * a * x[i];
      xb += w[i] * b * x[i];
    }
    const double determinant = aa * bb - ab * ab;
    if (!(determinant > 1e-9 * aa * bb)) return;
    const float d = static_cast<float>((xa * bb - xb * ab) / determinant);
    const float dmin = static_cast<float>((xb * aa - xa * ab) / determinant);
    if (!(d > 0) || !(dmin >= 0)) return;
    const KAffine before = *block;
    block->d = fit::SuperScaleBits(d);
    block->dmin = fit::SuperScaleBits(dmin);
    float improved = 0;
    for (size_t g = 0; g < kGroups; ++g) improved += GroupError(g);
    if (improved < error) {
      RoundValues();
    } else {
      *block = before;
    }
  }
};

}  // namespace

template <size_t kGroup>
void EncodeKAffine(const float* values, const float* importance, int q_high, int scale_high, KAffine* block) {
  Search<kGroup> search;
  search.block = block;
  search.q_high = static_cast<float>(q_high);
  search.scale_high = scale_high;
  fit::CopyClamped(values, 256, search.x);
  Line lines[16];
  float largest_scale = 0, largest_minimum = 0;
  for (size_t g = 0; g < 256 / kGroup; ++g) {
    const float* x = search.x + g * kGroup;
    float* w = search.w + g * kGroup;
    fit::Weights<kGroup>(x, importance == nullptr ? nullptr : importance + g * kGroup, w);
    lines[g] = fit::BestLine<kGroup>(x, w, q_high, fit::Offset::kNotPositive);
    largest_scale = lines[g].scale > largest_scale ? lines[g].scale : largest_scale;
    largest_minimum = -lines[g].offset > largest_minimum ? -lines[g].offset : largest_minimum;
  }
  block->d = fit::SuperScaleBits(largest_scale / static_cast<float>(scale_high));
  block->dmin = fit::SuperScaleBits(largest_minimum / static_cast<float>(scale_high));
  const float error = search.RoundLines(lines);
  search.ImproveSuperScales(error);
}

template void EncodeKAffine<16>(const float*, const float*, int, int, KAffine*);
template void EncodeKAffine<32>(const float*, const float*, int, int, KAffine*);

}  // namespace moonlit
