// SPDX-License-Identifier: Apache-2.0
// Choosing scales when weights are encoded. All fits minimise the weighted squared error sum w (x - decoded)^2 of one
// group of n values, by trying a few dozen roundings and solving each for its best scale in closed form:
//
//   x ~ s q         s = sum(w x q) / sum(w q q); the error falls by sum(w x q)^2 / sum(w q q), which is maximised
//   x ~ s q + b     the 2 x 2 normal equations
//
// Every group has 16 or 32 values, so n is a template argument; sums run in eight lanes, in the same order on every
// machine.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/float16.h"

namespace moonlit::fit {

// Below this a group counts as zeros: the smallest step of any F16 scale is 6e-8, and squares must not underflow.
inline constexpr float kTiny = 1e-12f;
// Values are clamped here before a search, so that no sum overflows; no block can hold more than 6e7 anyway.
inline constexpr float kHuge = 1e9f;

// Nearest integer, ties to even, for |v| < 2^22. Branch-free, and independent of the rounding of the C library.
inline float RoundNearest(float v) { return (v + 12582912.0f) - 12582912.0f; }

// A NaN becomes `low`: no float that is out of range may be converted to an integer.
inline float Clamp(float v, float low, float high) { return v > low ? (v < high ? v : high) : low; }

// F16 bits of a scale. Saturates: an infinity would turn the whole block into NaN.
inline uint16_t ScaleBits(float scale) { return F16FromF32(Clamp(scale, -65504.0f, 65504.0f)); }

// Of a scale that others are multiples of: never zero unless it is zero, or small groups would vanish.
inline uint16_t SuperScaleBits(float scale) {
  const uint16_t bits = ScaleBits(scale);
  if ((bits & 0x7FFF) != 0 || scale == 0) return bits;
  return scale < 0 ? 0x8001 : 0x0001;
}

inline float LargestMagnitude(const float* x, size_t n) {
  float largest = 0;
  for (size_t i = 0; i < n; ++i) largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
  return largest;
}

// Of all n = 16 or 32 values: sum of f(i).
template <size_t n, typename Function>
inline float Sum(Function f) {
  static_assert(n % 8 == 0);
  float lanes[8] = {};
  for (size_t i = 0; i < n; i += 8) {
    for (size_t j = 0; j < 8; ++j) lanes[j] += f(i + j);
  }
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// Weights of the squared error of a group. Without importance an error costs more on a large weight than on a small one
// (it meets larger activations in trained models): rms + |x|. With importance: exactly what the caller says.
template <size_t n>
inline void Weights(const float* x, const float* importance, float* w) {
  if (importance != nullptr) {
    const float total = Sum<n>([&](size_t i) { return importance[i]; });
    if (total > 0) {
      const float inverse = static_cast<float>(n) / total;
      for (size_t i = 0; i < n; ++i) w[i] = importance[i] * inverse;
      return;
    }
  }
  const float rms = sqrtf(Sum<n>([&](size_t i) { return x[i] * x[i]; }) / static_cast<float>(n));
  for (size_t i = 0; i < n; ++i) w[i] = rms + fabsf(x[i]);
}

// What q may be: all integers from low to high.
struct LinearGrid {
  float low, high;
  static constexpr float kStep = 0.1f;  // how finely the position of the largest value is tried, in units of q
  float Nearest(float v) const { return RoundNearest(Clamp(v, low, high)); }
};

// What q may be: one of 16 ascending levels.
struct TableGrid {
  explicit TableGrid(const int8_t levels[16]) : low(levels[0]), high(levels[15]), table(levels) {
    for (int i = 0; i < 15; ++i) middles[i] = 0.5f * static_cast<float>(levels[i] + levels[i + 1]);
  }
  float low, high;
  const int8_t* table;
  float middles[15];
  static constexpr float kStep = 1.0f;
  uint8_t Index(float v) const {
    int index = 0;
    for (float middle : middles) index += v > middle;
    return static_cast<uint8_t>(index);
  }
  float Nearest(float v) const { return static_cast<float>(table[Index(v)]); }
};

// Best s of x ~ s q with q on the grid; 0 for a group of zeros. s may be negative where the grid is not symmetric.
// REQUIRES: |x| <= kHuge, w >= 0.
template <size_t n, typename Grid>
inline float Scale(const float* x, const float* w, const Grid& grid) {
  float largest = x[0];
  for (size_t i = 1; i < n; ++i) largest = fabsf(x[i]) > fabsf(largest) ? x[i] : largest;
  if (fabsf(largest) < kTiny) return 0;
  float best = 0, best_gain = 0;
  const auto attempt = [&](float inverse) {
    float q[n];
    for (size_t i = 0; i < n; ++i) q[i] = grid.Nearest(x[i] * inverse);
    const float xq = Sum<n>([&](size_t i) { return w[i] * x[i] * q[i]; });
    const float qq = Sum<n>([&](size_t i) { return w[i] * q[i] * q[i]; });
    // Not xq * xq: it may overflow where the gain does not.
    const float gain = qq > 0 ? xq / qq * xq : 0;
    if (gain <= best_gain) return false;
    best_gain = gain;
    best = xq / qq;
    return true;
  };
  const float ends[2] = {grid.low, grid.high};
  for (const float end : ends) {
    for (int step = -9; step <= 9; ++step) attempt((end + Grid::kStep * static_cast<float>(step)) / largest);
  }
  for (int i = 0; i < 3 && best != 0 && attempt(1.0f / best); ++i) {
  }
  return best;
}

struct Line {
  float scale, offset;  // x ~ scale q + offset, scale >= 0
};

enum class Offset { kAny, kNotPositive };

// Squared error of rounding x to the line, q in 0 .. high.
template <size_t n>
inline float LineError(const float* x, const float* w, const Line& line, float high) {
  const float inverse = line.scale > 0 ? 1.0f / line.scale : 0.0f;
  return Sum<n>([&](size_t i) {
    const float q = RoundNearest(Clamp((x[i] - line.offset) * inverse, 0.0f, high));
    const float error = x[i] - (line.scale * q + line.offset);
    return w[i] * error * error;
  });
}

// For given q: the best line, or false where q is all the same.
template <size_t n>
inline bool SolveLine(const float* x, const float* w, const float* q, Offset kind, Line* line) {
  const float sum_w = Sum<n>([&](size_t i) { return w[i]; });
  const float sum_q = Sum<n>([&](size_t i) { return w[i] * q[i]; });
  const float sum_qq = Sum<n>([&](size_t i) { return w[i] * q[i] * q[i]; });
  const float sum_x = Sum<n>([&](size_t i) { return w[i] * x[i]; });
  const float sum_xq = Sum<n>([&](size_t i) { return w[i] * x[i] * q[i]; });
  const float determinant = sum_w * sum_qq - sum_q * sum_q;
  if (!(determinant > 0)) return false;
  line->scale = (sum_w * sum_xq - sum_x * sum_q) / determinant;
  line->offset = (sum_qq * sum_x - sum_q * sum_xq) / determinant;
  if (kind == Offset::kNotPositive && line->offset > 0) {
    line->offset = 0;
    line->scale = sum_xq / sum_qq;
  }
  return line->scale > 0;
}

// Best line with q in 0 .. high. REQUIRES: |x| <= kHuge, w >= 0.
template <size_t n>
inline Line BestLine(const float* x, const float* w, int high, Offset kind) {
  float low = x[0], top = x[0];
  for (size_t i = 1; i < n; ++i) {
    low = x[i] < low ? x[i] : low;
    top = x[i] > top ? x[i] : top;
  }
  if (kind == Offset::kNotPositive && low > 0) low = 0;
  const float levels = static_cast<float>(high);
  const float range = top - low;
  if (range < kTiny) return {0, low};
  Line best = {range / levels, low};
  float best_error = LineError<n>(x, w, best, levels);
  const auto attempt = [&](float inverse, float offset) {
    float q[n];
    for (size_t i = 0; i < n; ++i) q[i] = RoundNearest(Clamp((x[i] - offset) * inverse, 0.0f, levels));
    Line line;
    if (!SolveLine<n>(x, w, q, kind, &line)) return false;
    const float error = LineError<n>(x, w, line, levels);
    if (error >= best_error) return false;
    best_error = error;
    best = line;
    return true;
  };
  for (int step = -10; step <= 10; ++step) attempt((levels + 0.1f * static_cast<float>(step)) / range, low);
  for (int i = 0; i < 3 && attempt(1.0f / best.scale, best.offset); ++i) {
  }
  return best;
}

// Copies k values clamped to what the searches take.
inline void CopyClamped(const float* x, size_t k, float* out) {
  for (size_t i = 0; i < k; ++i) out[i] = Clamp(x[i], -kHuge, kHuge);
}

}  // namespace moonlit::fit
