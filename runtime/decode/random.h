// SPDX-License-Identifier: Apache-2.0
// The sampler's random numbers: xoshiro256** of Blackman and Vigna (2018, arXiv:1805.01407), its state filled from the
// seed by SplitMix64 (Steele, Lea and Flood 2014) as its authors advise. Integer arithmetic only, so a seed gives the
// same numbers on every machine and with every compiler; changing this changes what users' seeds mean.
#pragma once

#include <cstdint>

namespace moonlit {

class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) word = SplitMix(seed);
  }

  uint64_t Next() {
    const uint64_t result = RotateLeft(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = RotateLeft(state_[3], 45);
    return result;
  }

  // Uniform in [0, 1): the upper 53 bits as a multiple of 2^-53, exact in a double.
  double NextUniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  static uint64_t SplitMix(uint64_t& state) {
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

 private:
  static uint64_t RotateLeft(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t state_[4];
};

}  // namespace moonlit
