// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "kernels/rope/rope.h"

namespace moonlit {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;

// The (fractional) pair index that makes `turns` full turns within the original context: solves
// original_context * base^(-2i / rotated) = 2 pi turns.
double PairThatTurns(const RopeScaling& s, double turns) {
  return static_cast<double>(s.rotated) * log(s.original_context / (turns * kTwoPi)) / (2.0 * log(s.base));
}

}  // namespace

void ComputeRopeFrequencies(const RopeScaling& s, double* frequencies, double* magnitude) {
  const bool yarn = s.extension_factor > 0;
  double low = 0, high = 0;
  if (yarn) {
    low = fmax(0.0, floor(PairThatTurns(s, s.beta_fast)));
    high = fmin(static_cast<double>(s.rotated) - 1.0, ceil(PairThatTurns(s, s.beta_slow)));
  }
  for (size_t i = 0; i < s.rotated / 2; ++i) {
    double own = pow(s.base, -2.0 * static_cast<double>(i) / static_cast<double>(s.rotated));
    if (s.factors != nullptr) own /= static_cast<double>(s.factors[i]);
    const double interpolated = own * s.linear_scale;
    if (!yarn) {
      frequencies[i] = interpolated;
      continue;
    }
    const double along = (static_cast<double>(i) - low) / fmax(0.001, high - low);
    const double keep = (1.0 - fmin(1.0, fmax(0.0, along))) * s.extension_factor;
    frequencies[i] = interpolated * (1.0 - keep) + own * keep;
  }
  *magnitude = s.attention_factor * (yarn ? 1.0 + 0.1 * log(1.0 / s.linear_scale) : 1.0);
}

void FillRopeRow(const double* frequencies, size_t pairs, double magnitude, int64_t position, float* cosines,
                 float* sines) {
  for (size_t i = 0; i < pairs; ++i) {
    const double angle = static_cast<double>(position) * frequencies[i];
    cosines[i] = static_cast<float>(cos(angle) * magnitude);
    sines[i] = static_cast<float>(sin(angle) * magnitude);
  }
}

}  // namespace moonlit
