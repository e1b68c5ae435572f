// SPDX-License-Identifier: Apache-2.0
// What the tests of the small kernels share: the variants that this machine can run, and reproducible data.
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cpu/variant.h"
#include "tests/support/runnable_variants.h"

namespace moonlit {

inline constexpr double kUnit = 0x1p-24;  // half a unit in the last place of 1.0f: the error of one rounding
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

// Uniform in [-range, range) plus `offset`. The engine's bits are fixed by the standard; distributions are not, so none
// is used.
inline std::vector<float> RandomFloats(size_t n, uint32_t seed, float range = 1.0f, float offset = 0.0f) {
  std::mt19937 engine(seed);
  std::vector<float> values(n);
  for (float& v : values) v = (static_cast<float>(engine() >> 8) * 0x1p-23f - 1.0f) * range + offset;
  return values;
}

// Sizes around vector widths, and real ones.
inline std::vector<size_t> Sizes() {
  std::vector<size_t> sizes;
  for (size_t n = 1; n <= 70; ++n) sizes.push_back(n);
  for (size_t n : {80, 96, 127, 128, 129, 576, 896, 2048, 4544}) sizes.push_back(n);
  return sizes;
}

}  // namespace moonlit
