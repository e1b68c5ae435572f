// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation/activation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/activation/reference.h"
#include "tests/smallops/variants.h"

namespace moonlit {
namespace {

// Dense where the functions bend, and out to where the exponentials vanish.
std::vector<float> Inputs() {
  std::vector<float> x;
  for (int i = -6000; i <= 6000; ++i) x.push_back(static_cast<float>(i) * 0.002f);
  for (int i = -2000; i <= 2000; ++i) x.push_back(static_cast<float>(i) * 0.1f);
  for (float v : {0.0f, -0.0f, 1e-30f, -1e-30f, 1e-10f, -1e-10f, 1e10f, -1e10f, 1e18f, -1e18f}) x.push_back(v);
  return x;
}

class ActivationTest : public testing::TestWithParam<Variant> {
 protected:
  const ActivationTable& table() const { return GetActivationTable(GetParam()); }
};

// Roundings: the exponential 2 ulp (4 units), its argument, 1 + e, the product, the quotient (2 more where it is
// refined from an estimate).
constexpr double kRelative = 12 * kUnit;
// Below the smallest normal float an exponential may be flushed to zero.
constexpr double kTiny = 0x1p-126;

TEST_P(ActivationTest, Sigmoid) {
  const auto x = Inputs();
  std::vector<float> out(x.size());
  table().sigmoid(x.data(), out.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = ReferenceSigmoid(double{x[i]});
    ASSERT_NEAR(out[i], expected, kRelative * expected + 2 * kTiny) << x[i];
  }
  const float ends[] = {kInf, -kInf, 0.0f};
  table().sigmoid(ends, out.data(), 3);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_EQ(out[2], 0.5f);
}

TEST_P(ActivationTest, Silu) {
  const auto x = Inputs();
  std::vector<float> out(x.size());
  table().silu(x.data(), out.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = ReferenceSilu(double{x[i]});
    ASSERT_NEAR(out[i], expected, kRelative * std::abs(expected) + 2 * kTiny * (1 + std::abs(double{x[i]}))) << x[i];
  }
}

// In gelu the error of the exponent's argument, |a^2 / 2| units, meets exp(-a^2 / 2): their product stays below one
// unit, so the error is a few units of |x|, in the tail too.
TEST_P(ActivationTest, Gelu) {
  const auto x = Inputs();
  std::vector<float> exact(x.size()), tanh(x.size());
  table().gelu(x.data(), exact.data(), x.size());
  table().gelu_tanh(x.data(), tanh.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double bound = kRelative * std::abs(double{x[i]}) + 2 * kTiny;
    ASSERT_NEAR(exact[i], ReferenceGelu(double{x[i]}), bound) << x[i];
    ASSERT_NEAR(tanh[i], ReferenceGeluTanh(double{x[i]}), bound) << x[i];
  }
}

// The quotient, the exponential and the three roundings that make a tanh of it, in units of the cap.
TEST_P(ActivationTest, SoftCap) {
  const auto x = Inputs();
  std::vector<float> out(x.size());
  for (float cap : {0.5f, 6.0f, 30.0f}) {
    table().softcap(x.data(), cap, out.data(), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(out[i], ReferenceSoftCap(double{x[i]}, double{cap}), kRelative * double{cap}) << x[i];
    }
  }
  const float ends[] = {kInf, -kInf, kNan};
  table().softcap(ends, 6.0f, out.data(), 3);
  EXPECT_EQ(out[0], 6.0f);
  EXPECT_EQ(out[1], -6.0f);
  EXPECT_TRUE(std::isnan(out[2]));
}

TEST_P(ActivationTest, ClampKeepsWhatIsInside) {
  const auto x = RandomFloats(1003, 1, 5.0f);
  std::vector<float> out(x.size());
  table().clamp(x.data(), 1.5f, out.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(out[i], std::min(std::max(x[i], -1.5f), 1.5f));
  const float ends[] = {kInf, -kInf, kNan};
  table().clamp(ends, 1.5f, out.data(), 3);
  EXPECT_EQ(out[0], 1.5f);
  EXPECT_EQ(out[1], -1.5f);
  EXPECT_TRUE(std::isnan(out[2]));
}

TEST_P(ActivationTest, ReluSquaredAndArithmeticAreExact) {
  const auto x = RandomFloats(1003, 1, 50.0f), y = RandomFloats(1003, 2, 50.0f);
  std::vector<float> out(x.size());
  table().relu_squared(x.data(), out.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(out[i], static_cast<float>(ReferenceReluSquared(double{x[i]})));
  table().add(x.data(), y.data(), out.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(out[i], x[i] + y[i]);
  table().mul(x.data(), y.data(), out.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(out[i], x[i] * y[i]);
  table().scale(x.data(), 0.3f, out.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(out[i], x[i] * 0.3f);
  // With one rounding or two.
  out = y;
  table().add_scaled(x.data(), 0.3f, out.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_TRUE(out[i] == std::fma(x[i], 0.3f, y[i]) || out[i] == x[i] * 0.3f + y[i]) << i;
  }
}

TEST_P(ActivationTest, GatedFormsAreTheActivationTimesUp) {
  const auto gate = RandomFloats(517, 3, 8.0f), up = RandomFloats(517, 4, 8.0f);
  using Plain = void (*)(const float*, float*, size_t);
  using Gated = void (*)(const float*, const float*, float*, size_t);
  const std::pair<Plain, Gated> forms[] = {{table().silu, table().swiglu},
                                           {table().gelu, table().geglu},
                                           {table().gelu_tanh, table().geglu_tanh},
                                           {table().relu_squared, table().reglu_squared}};
  for (const auto& [plain, gated] : forms) {
    std::vector<float> activated(gate.size()), out(gate.size());
    plain(gate.data(), activated.data(), gate.size());
    gated(gate.data(), up.data(), out.data(), gate.size());
    for (size_t i = 0; i < gate.size(); ++i) ASSERT_EQ(out[i], activated[i] * up[i]);
  }
}

TEST_P(ActivationTest, NanStaysNan) {
  using Plain = void (*)(const float*, float*, size_t);
  for (Plain function : {table().sigmoid, table().silu, table().gelu, table().gelu_tanh, table().relu_squared}) {
    for (size_t n : {size_t{1}, size_t{3}, size_t{64}}) {
      std::vector<float> x(n, kNan), out(n);
      function(x.data(), out.data(), n);
      for (float v : out) EXPECT_TRUE(std::isnan(v));
    }
  }
}

// Full vectors and tails, any address, in place: an element's bits are its own.
TEST_P(ActivationTest, AnElementDependsOnItselfOnly) {
  using Plain = void (*)(const float*, float*, size_t);
  const auto x = RandomFloats(131, 5, 9.0f);
  for (Plain function : {table().sigmoid, table().silu, table().gelu, table().gelu_tanh, table().relu_squared}) {
    std::vector<float> single(x.size());
    for (size_t i = 0; i < x.size(); ++i) function(&x[i], &single[i], 1);
    for (size_t n = 0; n <= 70; ++n) {
      auto block = x;
      function(block.data() + 1, block.data() + 1, n);
      ASSERT_EQ(block[0], x[0]);
      ASSERT_EQ(0, std::memcmp(block.data() + 1, single.data() + 1, n * sizeof(float))) << n;
      ASSERT_EQ(0, std::memcmp(block.data() + 1 + n, x.data() + 1 + n, (x.size() - 1 - n) * sizeof(float))) << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, ActivationTest, testing::ValuesIn(RunnableVariants()),
                         [](const auto& info) { return std::string(VariantName(info.param)); });

}  // namespace
}  // namespace moonlit
