// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/norm/reference.h"
#include "tests/smallops/variants.h"

namespace moonlit {
namespace {

constexpr float kEps = 1e-5f;

// Errors of a sum of d terms by 16 or more accumulators grow with the root of the additions (Higham & Mary 2019, lambda
// = 4), and the inverse root halves them; the rest is the handful of roundings after the sum.
double Bound(size_t d) { return (10.0 + 2.0 * std::sqrt(static_cast<double>(d) / 16 + 8)) * kUnit; }

class NormTest : public testing::TestWithParam<Variant> {
 protected:
  std::vector<float> Rms(const std::vector<float>& x, const float* weight, float eps = kEps) const {
    std::vector<float> out(x.size());
    GetNormTable(GetParam())
        .rms_norm_rows({x.data(), x.size(), 1, x.size(), weight, nullptr, eps, out.data(), x.size()});
    return out;
  }
  std::vector<float> Layer(const std::vector<float>& x, const float* weight, const float* bias) const {
    std::vector<float> out(x.size());
    GetNormTable(GetParam())
        .layer_norm_rows({x.data(), x.size(), 1, x.size(), weight, bias, kEps, out.data(), x.size()});
    return out;
  }
};

TEST_P(NormTest, RmsAgreesWithDoublePrecision) {
  for (size_t d : Sizes()) {
    for (float range : {1e-18f, 1e-3f, 1.0f, 1e5f, 1e18f}) {
      const auto x = RandomFloats(d, static_cast<uint32_t>(d), range);
      const auto weight = RandomFloats(d, static_cast<uint32_t>(d) + 1000, 2.0f);
      for (const float* w : {static_cast<const float*>(nullptr), weight.data()}) {
        const auto out = Rms(x, w);
        std::vector<double> expected(d);
        ReferenceRmsNorm(x.data(), d, w, double{kEps}, expected.data());
        for (size_t i = 0; i < d; ++i) {
          ASSERT_NEAR(out[i], expected[i], Bound(d) * std::abs(expected[i]))
              << "d " << d << " range " << range << " i " << i;
        }
      }
    }
  }
}

TEST_P(NormTest, RmsOfValuesWhoseSquaresOverflow) {
  for (size_t d : {size_t{1}, size_t{5}, size_t{64}, size_t{2048}}) {
    const auto x = RandomFloats(d, 7, 3e38f);
    const auto out = Rms(x, nullptr);
    std::vector<double> expected(d);
    ReferenceRmsNorm(x.data(), d, nullptr, double{kEps}, expected.data());
    for (size_t i = 0; i < d; ++i) ASSERT_NEAR(out[i], expected[i], Bound(d) * std::abs(expected[i])) << "d " << d;
  }
}

TEST_P(NormTest, LayerAgreesWithDoublePrecision) {
  for (size_t d : Sizes()) {
    if (d < 2) continue;  // its variance is 0: only the bias remains, tested below
    for (float offset : {0.0f, 3.0f}) {
      const auto x = RandomFloats(d, static_cast<uint32_t>(d), 1.0f, offset);
      const auto weight = RandomFloats(d, static_cast<uint32_t>(d) + 1000, 2.0f);
      const auto bias = RandomFloats(d, static_cast<uint32_t>(d) + 2000, 2.0f);
      const auto out = Layer(x, weight.data(), bias.data());
      std::vector<double> expected(d), plain(d);
      ReferenceLayerNorm(x.data(), d, weight.data(), bias.data(), double{kEps}, expected.data());
      ReferenceLayerNorm(x.data(), d, nullptr, nullptr, double{kEps}, plain.data());
      double mean = 0, squares = 0, largest = 0;
      for (float v : x) mean += double{v} / static_cast<double>(d);
      for (float v : x) squares += (double{v} - mean) * (double{v} - mean) / static_cast<double>(d);
      for (float v : x) largest = std::max(largest, std::abs(double{v}));
      // A relative error of the mean is multiplied by |x| / deviation.
      const double condition = 2.0 * largest / std::sqrt(squares + double{kEps});
      for (size_t i = 0; i < d; ++i) {
        const double bound =
            Bound(d) * ((condition + std::abs(plain[i])) * std::abs(double{weight[i]}) + std::abs(double{bias[i]}));
        ASSERT_NEAR(out[i], expected[i], bound) << "d " << d << " offset " << offset << " i " << i;
      }
    }
  }
}

TEST_P(NormTest, LayerOfAConstantRowIsItsBias) {
  const std::vector<float> x(33, 4.0f), bias = RandomFloats(33, 5);
  EXPECT_EQ(Layer(x, nullptr, bias.data()), bias);
  EXPECT_EQ(Layer({-7.5f}, nullptr, nullptr), std::vector<float>{0.0f});
}

TEST_P(NormTest, LayerOfValuesWhoseSquaresOverflow) {
  const auto x = RandomFloats(100, 9, 1e38f);
  const auto out = Layer(x, nullptr, nullptr);
  std::vector<double> expected(x.size());
  ReferenceLayerNorm(x.data(), x.size(), nullptr, nullptr, double{kEps}, expected.data());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(out[i], expected[i], 4 * Bound(100));
}

TEST_P(NormTest, RowOfZerosStaysZero) { EXPECT_EQ(Rms(std::vector<float>(77), nullptr), std::vector<float>(77)); }

TEST_P(NormTest, NanAndInfinityAreNotHidden) {
  for (float bad : {kNan, kInf, -kInf}) {
    for (size_t at : {size_t{0}, size_t{37}, size_t{66}}) {
      auto x = RandomFloats(67, 3);
      x[at] = bad;
      for (float v : Rms(x, nullptr)) EXPECT_TRUE(std::isnan(v)) << bad << " at " << at;
      for (float v : Layer(x, nullptr, nullptr)) EXPECT_TRUE(std::isnan(v)) << bad << " at " << at;
    }
  }
}

// Rows in a batch, at odd addresses, with strides, in place: the same bits, and nothing is written beside them.
TEST_P(NormTest, ARowDependsOnItselfOnly) {
  for (size_t d : {size_t{1}, size_t{15}, size_t{64}, size_t{100}, size_t{576}}) {
    const size_t rows = 5, stride = d + 3;
    auto block = RandomFloats(rows * stride + 1, 11, 3.0f);
    const auto original = block;
    const auto weight = RandomFloats(d, 12);
    float* first = block.data() + 1;
    GetNormTable(GetParam()).rms_norm_rows({first, stride, rows, d, weight.data(), nullptr, kEps, first, stride});
    for (size_t r = 0; r < rows; ++r) {
      const std::vector<float> x(original.begin() + 1 + r * stride, original.begin() + 1 + r * stride + d);
      EXPECT_EQ(0, std::memcmp(Rms(x, weight.data()).data(), first + r * stride, d * sizeof(float))) << "row " << r;
      for (size_t i = d; i < stride && r * stride + i + 1 < block.size(); ++i) {
        EXPECT_EQ(block[1 + r * stride + i], original[1 + r * stride + i]) << "written past the row";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, NormTest, testing::ValuesIn(RunnableVariants()),
                         [](const auto& info) { return std::string(VariantName(info.param)); });

}  // namespace
}  // namespace moonlit
