// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax/softmax.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/softmax/reference.h"
#include "tests/smallops/variants.h"

namespace moonlit {
namespace {

class SoftmaxTest : public testing::TestWithParam<Variant> {
 protected:
  std::vector<float> Softmax(const std::vector<float>& x, float scale = 1.0f) const {
    std::vector<float> out(x.size());
    GetSoftmaxTable(GetParam()).softmax_row(x.data(), x.size(), scale, out.data());
    return out;
  }
};

TEST_P(SoftmaxTest, AgreesWithDoublePrecision) {
  for (size_t n : Sizes()) {
    for (float scale : {1.0f, 0.125f}) {
      const float range = 20.0f;
      const auto x = RandomFloats(n, static_cast<uint32_t>(n), range);
      const auto out = Softmax(x, scale);
      std::vector<double> expected(n);
      ReferenceSoftmax(x.data(), n, double{scale}, expected.data());
      // The exponent's argument is off by a unit of its size (up to 2 * range) in numerator and sum, the sum by the
      // root of its additions, the rest by a handful of roundings.
      const double bound =
          (2 * 2 * double{range} * double{scale} + 12 + 4 * std::sqrt(static_cast<double>(n) / 4)) * kUnit;
      for (size_t i = 0; i < n; ++i) ASSERT_NEAR(out[i], expected[i], bound * expected[i]) << "n " << n << " i " << i;
    }
  }
}

TEST_P(SoftmaxTest, EqualLogitsShareEqually) {
  for (float value : {0.0f, -1e30f, 3e38f})
    EXPECT_EQ(Softmax(std::vector<float>(8, value)), std::vector<float>(8, 0.125f));
}

TEST_P(SoftmaxTest, FarBelowTheMaximumIsZero) {
  EXPECT_EQ(Softmax({3e38f, -3e38f, -kInf, 0.0f}), (std::vector<float>{1.0f, 0.0f, 0.0f, 0.0f}));
  EXPECT_EQ(Softmax({-kInf, -5.0f, -kInf}), (std::vector<float>{0.0f, 1.0f, 0.0f}));
}

TEST_P(SoftmaxTest, AllMaskedIsZeros) {
  for (size_t n : {size_t{1}, size_t{7}, size_t{64}})
    EXPECT_EQ(Softmax(std::vector<float>(n, -kInf)), std::vector<float>(n, 0.0f));
}

TEST_P(SoftmaxTest, NanAndInfinityAreNotHidden) {
  for (float bad : {kNan, kInf}) {
    for (size_t at : {size_t{0}, size_t{32}, size_t{66}}) {
      auto x = RandomFloats(67, 3);
      x[at] = bad;
      for (float v : Softmax(x)) EXPECT_TRUE(std::isnan(v)) << bad << " at " << at;
    }
  }
}

TEST_P(SoftmaxTest, InPlaceAndNothingBeside) {
  for (size_t n = 1; n <= 40; ++n) {
    const auto x = RandomFloats(n + 2, static_cast<uint32_t>(n), 4.0f);
    auto block = x;
    GetSoftmaxTable(GetParam()).softmax_row(block.data() + 1, n, 1.0f, block.data() + 1);
    EXPECT_EQ(std::vector<float>(block.begin() + 1, block.end() - 1), Softmax({x.begin() + 1, x.end() - 1}));
    EXPECT_EQ(block.front(), x.front());
    EXPECT_EQ(block.back(), x.back());
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, SoftmaxTest, testing::ValuesIn(RunnableVariants()),
                         [](const auto& info) { return std::string(VariantName(info.param)); });

}  // namespace
}  // namespace moonlit
