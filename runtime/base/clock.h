// SPDX-License-Identifier: Apache-2.0
// Time for measurements and progress lines: monotonic, unrelated to the date. Nothing that a model computes may depend on it.
#pragma once

#include <chrono>
#include <cstdint>

namespace moonlit {

// Nanoseconds since an arbitrary start. Thread safe.
inline uint64_t MonotonicNanoseconds() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}
inline double MonotonicSeconds() { return static_cast<double>(MonotonicNanoseconds()) * 1e-9; }

}  // namespace moonlit
