// SPDX-License-Identifier: Apache-2.0
// A8 has one definition: every variant gives the bits of the scalar reference.
#include <gtest/gtest.h>
#include <math.h>
#include <string.h>

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

INSTANTIATE_TEST_SUITE_P(Variants, QuantizeA8Test, testing::ValuesIn(RunnableVariants()),
                         [](const auto& info) { return std::string(VariantName(info.param)); });

}  // namespace
}  // namespace moonlit
