// SPDX-License-Identifier: Apache-2.0
// A8 has one definition: every variant gives the bits of the scalar reference.
#include <gtest/gtest.h>
#include <math.h>
#include <string.h>

#include <algorithm>

#include "tests/matmul/cases.h"

namespace moonlit {
namespace {

class QuantizeA8Test : public testing::TestWithParam<Variant> {};

void ExpectReferenceBits(Variant variant, const std::vector<float>& x, size_t rows, size_t k) {
  const QuantizedRows a8(variant, x, rows, k);
  const size_t groups = (k + kA8Group - 1) / kA8Group;
  std::vector<int8_t> q(groups * kA8Group);
  std::vector<float> scale(groups);
  std::vector<int32_t> minus_sum(2 * groups);
  for (size_t r = 0; r < rows; ++r) {
    ReferenceQuantizeA8(x.data() + r * k, k, q.data(), scale.data(), minus_sum.data());
    for (size_t g = 0; g < groups; ++g) {
      ASSERT_EQ(memcmp(A8Values(a8.view, r, g), q.data() + g * kA8Group, kA8Group), 0) << "k " << k << " row " << r;
      ASSERT_TRUE(SameBits(*A8Scale(a8.view, r, g), scale[g])) << "k " << k << " row " << r << " group " << g;
      for (size_t h = 0; h < 2; ++h) ASSERT_EQ(*A8MinusSum(a8.view, r, g, h), minus_sum[2 * g + h]) << "k " << k;
    }
  }
}

TEST_P(QuantizeA8Test, RandomRowsOfManyWidths) {
  std::mt19937 random(1);
  for (size_t k : {1, 15, 16, 17, 31, 32, 33, 64, 72, 576, 896, 4544}) {
    const size_t rows = k > 1000 ? 3 : 19;
    std::vector<float> x = Gaussian(rows * k, &random);
    for (size_t i = 0; i < x.size(); i += 37) x[i] *= 100.0f;
    ExpectReferenceBits(GetParam(), x, rows, k);
  }
}

// With a maximum of 127 the quotient is x itself, so halves are exact ties.
TEST_P(QuantizeA8Test, TiesGoToEven) {
  std::vector<float> x(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 32.5f;
  x[0] = 127.0f;
  x[32] = -127.0f;
  ExpectReferenceBits(GetParam(), x, 1, x.size());
  const QuantizedRows a8(GetParam(), x, 1, x.size());
  EXPECT_EQ(a8.q(0, 0), 127);
  EXPECT_EQ(a8.q(0, 1), -32);  // -31.5
  EXPECT_EQ(a8.q(0, 2), -30);  // -30.5
  EXPECT_EQ(a8.q(0, 33), 0);   // 0.5
  EXPECT_EQ(a8.q(0, 34), 2);   // 1.5
}

TEST_P(QuantizeA8Test, SumsReachTheirBound) {
  std::vector<float> x(64, 3.0f);
  for (size_t i = 32; i < 64; ++i) x[i] = -5.0f;
  const QuantizedRows a8(GetParam(), x, 1, x.size());
  EXPECT_EQ(*A8MinusSum(a8.view, 0, 0, 0), -2032);
  EXPECT_EQ(*A8MinusSum(a8.view, 0, 0, 1), -2032);
  EXPECT_EQ(*A8MinusSum(a8.view, 0, 1, 0), 2032);
  EXPECT_EQ(*A8MinusSum(a8.view, 0, 1, 1), 2032);
}

TEST_P(QuantizeA8Test, HugeTinyAndNotFinite) {
  for (float value : {0.0f, -0.0f, 1e-45f, 1e-38f, 0x1p-120f, 0x1p-119f, 0x1.8p-119f, 1e-30f, 1e30f, 3.4028235e38f,
                      static_cast<float>(INFINITY), static_cast<float>(-INFINITY), static_cast<float>(NAN)}) {
    std::vector<float> x(96, 0.0f);
    x[40] = value;
    x[41] = -value * 0.3f;
    ExpectReferenceBits(GetParam(), x, 1, x.size());
    const QuantizedRows a8(GetParam(), x, 1, x.size());
    EXPECT_EQ(*A8Scale(a8.view, 0, 0), 0.0f);
    EXPECT_EQ(isnan(*A8Scale(a8.view, 0, 1)), !isfinite(value));
    EXPECT_EQ(*A8Scale(a8.view, 0, 2), 0.0f);
  }
}

// Both terms have the bits of their definitions, and together lose 2^-16 of a group's maximum at most: half a step of the second,
// which is half a step of the first over 127; the rest of the bound, 2%, is far more than float rounding takes.
TEST_P(QuantizeA8Test, TwoTermsKeepSixteenBits) {
  std::mt19937 random(2);
  for (size_t k : {1, 33, 72, 576}) {
    const size_t rows = 11;
    std::vector<float> x = Gaussian(rows * k, &random);
    for (size_t i = 0; i < x.size(); i += 37) x[i] *= 100.0f;
    const size_t groups = (k + kA8Group - 1) / kA8Group;
    std::vector<float> terms(2 * rows * k);
    for (size_t r = 0; r < rows; ++r) {
      std::vector<int8_t> q(groups * kA8Group);
      std::vector<float> scale(groups);
      std::vector<int32_t> minus_sum(2 * groups);
      ReferenceQuantizeA8(x.data() + r * k, k, q.data(), scale.data(), minus_sum.data());
      std::copy_n(x.data() + r * k, k, terms.data() + 2 * r * k);
      ReferenceLostByA8(x.data() + r * k, k, q.data(), scale.data(), terms.data() + (2 * r + 1) * k);
    }
    const QuantizedRows expected(GetParam(), terms, 2 * rows, k);
    AlignedBytes bytes(A8Bytes(2 * rows, k));
    const A8View view = MakeA8View(bytes.data(), 2 * rows, k);
    GetProductTable(GetParam()).quantize_a8_twice(x.data(), k, rows, k, view);
    for (size_t i = 0; i < 2 * rows * k; ++i) {
      const size_t row = i / k, group = i % k / kA8Group, at = i % k % kA8Group;
      ASSERT_EQ(A8Values(view, row, group)[at], A8Values(expected.view, row, group)[at]) << "k " << k << " row " << row;
      ASSERT_TRUE(SameBits(*A8Scale(view, row, group), *A8Scale(expected.view, row, group))) << "k " << k;
      for (size_t h = 0; h < 2; ++h) {
        ASSERT_EQ(*A8MinusSum(view, row, group, h), *A8MinusSum(expected.view, row, group, h)) << "k " << k;
      }
      if (row % 2 != 0) continue;
      const auto term = [&](size_t of) {
        return double{*A8Scale(view, of, group)} * double{static_cast<float>(A8Values(view, of, group)[at])};
      };
      const double largest = 127.0 * double{*A8Scale(view, row, group)};
      EXPECT_NEAR(term(row) + term(row + 1), double{x[row / 2 * k + i % k]}, 1.02 * largest / 254 / 254) << "k " << k;
    }
  }
}

// A group that is not finite is NaN in both terms, and one of zeros zeros.
TEST_P(QuantizeA8Test, BothTermsOfWhatIsNotFiniteAreNaN) {
  std::vector<float> x(96, 0.0f);
  x[5] = static_cast<float>(INFINITY);
  x[40] = 1e-40f;
  x[70] = 3e38f;
  AlignedBytes bytes(A8Bytes(2, x.size()));
  const A8View view = MakeA8View(bytes.data(), 2, x.size());
  GetProductTable(GetParam()).quantize_a8_twice(x.data(), x.size(), 1, x.size(), view);
  for (size_t row = 0; row < 2; ++row) {
    EXPECT_TRUE(isnan(*A8Scale(view, row, 0)));
    EXPECT_EQ(*A8Scale(view, row, 1), 0.0f);
    EXPECT_TRUE(isfinite(*A8Scale(view, row, 2)));
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, QuantizeA8Test, testing::ValuesIn(RunnableVariants()),
                         [](const auto& info) { return std::string(VariantName(info.param)); });

}  // namespace
}  // namespace moonlit
