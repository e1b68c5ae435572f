// SPDX-License-Identifier: Apache-2.0
// Every F16 and BF16 against their definitions in double; rounding against a search for the nearest value.
#include "kernels/base/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

namespace moonlit {
namespace {

// The definition of IEEE 754 binary interchange formats, for 1 + exponent_bits + mantissa_bits <= 16.
double ValueOf(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const double sign = (bits >> (exponent_bits + mantissa_bits)) & 1 ? -1.0 : 1.0;
  const int exponent = static_cast<int>((bits >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const int mantissa = static_cast<int>(bits & ((1u << mantissa_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

struct ShortType {
  const char* name;
  int exponent_bits, mantissa_bits;
  float (*decode)(uint16_t);
  uint16_t (*encode)(float);
};
const ShortType kTypes[] = {{"F16", 5, 10, F32FromF16, F16FromF32}, {"BF16", 8, 7, F32FromBF16, BF16FromF32}};

// Nearest of all finite values and of what the next power of two would be (which stands for infinity), ties to even.
uint16_t NearestBySearch(const ShortType& t, float value) {
  const uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
  const double target = std::fabs(double{value});
  const uint32_t infinity = ((1u << t.exponent_bits) - 1) << t.mantissa_bits;
  // Magnitudes grow with their bits, so the last one not above the target is found by bisection.
  uint32_t low = 0, high = infinity;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (ValueOf(middle, t.exponent_bits, t.mantissa_bits) <= target ? low : high) = middle;
  }
  const double below = ValueOf(low, t.exponent_bits, t.mantissa_bits);
  const double above =
      high == infinity ? std::ldexp(1.0, 1 << (t.exponent_bits - 1)) : ValueOf(high, t.exponent_bits, t.mantissa_bits);
  const double to_below = target - below, to_above = above - target;
  const uint32_t magnitude = to_below < to_above ? low : to_above < to_below ? high : (low % 2 == 0 ? low : high);
  return static_cast<uint16_t>(sign | magnitude);
}

TEST(Float16, DecodesAllPatternsExactly) {
  for (const ShortType& t : kTypes) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const double expected = ValueOf(bits, t.exponent_bits, t.mantissa_bits);
      const float actual = t.decode(static_cast<uint16_t>(bits));
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(actual)) << t.name << " " << bits;
      } else {
        ASSERT_EQ(expected, double{actual}) << t.name << " " << bits;
      }
      ASSERT_EQ((bits >> 15) != 0, std::signbit(actual)) << t.name << " " << bits;
    }
  }
}

TEST(Float16, RoundTripsAllPatterns) {
  for (const ShortType& t : kTypes) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const float value = t.decode(static_cast<uint16_t>(bits));
      // A NaN comes back quiet: the mantissa's first bit is set, the rest is kept.
      const uint32_t quiet = std::isnan(value) ? 1u << (t.mantissa_bits - 1) : 0u;
      ASSERT_EQ(bits | quiet, t.encode(value)) << t.name << " " << bits;
    }
  }
}

// All neighbours, all midpoints and the f32 values next to the midpoints: every decision of the rounding.
TEST(Float16, RoundsToNearestEvenAtEveryBoundary) {
  for (const ShortType& t : kTypes) {
    const uint32_t infinity = ((1u << t.exponent_bits) - 1) << t.mantissa_bits;
    for (uint32_t bits = 0; bits < infinity; ++bits) {
      const double below = ValueOf(bits, t.exponent_bits, t.mantissa_bits);
      const double above = bits + 1 == infinity ? std::ldexp(1.0, 1 << (t.exponent_bits - 1))
                                                : ValueOf(bits + 1, t.exponent_bits, t.mantissa_bits);
      const float middle = static_cast<float>((below + above) / 2);
      ASSERT_EQ((below + above) / 2, double{middle}) << "the midpoint is an f32";
      for (float value : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, INFINITY)}) {
        ASSERT_EQ(NearestBySearch(t, value), t.encode(value)) << t.name << " " << value;
        ASSERT_EQ(NearestBySearch(t, -value), t.encode(-value)) << t.name << " " << -value;
      }
    }
  }
}

TEST(Float16, RoundsRandomValues) {
  std::mt19937 random(7);
  for (const ShortType& t : kTypes) {
    for (int i = 0; i < 200000; ++i) {
      const float value = F32FromBits(static_cast<uint32_t>(random()));
      if (std::isnan(value) || std::isinf(value)) continue;
      ASSERT_EQ(NearestBySearch(t, value), t.encode(value)) << t.name << " " << value;
    }
  }
}

TEST(Float16, OverflowsToInfinityAndKeepsNan) {
  EXPECT_EQ(0x7BFF, F16FromF32(65519.996f));
  EXPECT_EQ(0x7C00, F16FromF32(65520.0f));
  EXPECT_EQ(0xFC00, F16FromF32(-INFINITY));
  EXPECT_EQ(0x7F80, BF16FromF32(std::numeric_limits<float>::max()));
  // A signalling NaN whose payload lies only in bits that are cut off must not become an infinity.
  EXPECT_TRUE(std::isnan(F32FromF16(F16FromF32(F32FromBits(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(F32FromBF16(BF16FromF32(F32FromBits(0xFF800001u)))));
}

TEST(Float16, E8M0IsAPowerOfTwo) {
  for (int e = 0; e < 255; ++e) ASSERT_EQ(std::ldexp(1.0, e - 127), double{F32FromE8M0(static_cast<uint8_t>(e))}) << e;
  EXPECT_TRUE(std::isnan(F32FromE8M0(255)));
}

}  // namespace
}  // namespace moonlit
