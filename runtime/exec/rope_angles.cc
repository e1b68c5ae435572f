// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/rope_angles.h"

#include <cmath>

#include "kernels/rope/rope.h"

namespace moonlit {

RopeAngles::RopeAngles(const RopeSpec& spec, const WeightStore& weights, size_t max_rows)
    : spec_(spec), frequencies_(spec.dims / 2), table_(max_rows * spec.dims) {
  RopeScaling scaling;
  scaling.base = spec.base;
  scaling.rotated = spec.dims;
  scaling.factors = weights.vector(spec.divisors);
  scaling.linear_scale = spec.method == RopeMethod::kNone ? 1.0 : 1.0 / spec.factor;
  scaling.extension_factor = spec.method == RopeMethod::kYarn ? 1.0 : 0.0;
  scaling.beta_fast = spec.beta_fast;
  scaling.beta_slow = spec.beta_slow;
  scaling.original_context = spec.original_context;
  scaling.attention_factor = spec.magnitude;
  ComputeRopeFrequencies(scaling, frequencies_.data(), &magnitude_);
}

Status RopeAngles::Check(const char* name) const {
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    if (std::isfinite(frequencies_[i]) && frequencies_[i] > 0) continue;
    return Errorf(Code::kCorrupt,
                  "tensor %s, entry %zu, makes the frequency %g: expected divisors above 0; the file is damaged", name,
                  i, frequencies_[i]);
  }
  return Status();
}

void RopeAngles::FillRow(size_t row, int64_t position) {
  float* cosines = table_.data() + row * 2 * pairs();
  FillRopeRow(frequencies_.data(), pairs(), magnitude_, position, cosines, cosines + pairs());
}

// The magnitude is in the vector already.
void RopeAngles::FillTurn(int64_t positions, float* cosines, float* sines) const {
  FillRopeRow(frequencies_.data(), pairs(), 1.0, positions, cosines, sines);
}

}  // namespace moonlit
