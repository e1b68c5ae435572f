// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/rope/reference.h"
#include "tests/smallops/variants.h"

namespace moonlit {
namespace {

struct Angles {
  std::vector<float> cosines, sines;
  Angles(const RopeScaling& scaling, int64_t position) : cosines(scaling.rotated / 2), sines(scaling.rotated / 2) {
    std::vector<double> frequencies(scaling.rotated / 2);
    double magnitude = 0;
    ComputeRopeFrequencies(scaling, frequencies.data(), &magnitude);
    FillRopeRow(frequencies.data(), frequencies.size(), magnitude, position, cosines.data(), sines.data());
  }
};

class RopeTest : public testing::TestWithParam<Variant> {
 protected:
  std::vector<float> Rotate(RopeKind kind, const std::vector<float>& x, size_t rotated, const Angles& angles) const {
    std::vector<float> out(x.size(), kNan);
    GetRopeTable(GetParam())
        .rotate_heads({kind, x.data(), x.size(), 1, x.size(), rotated, angles.cosines.data(), angles.sines.data(),
                       out.data(), x.size()});
    return out;
  }
};

// Partial rotary too: exponent and pair offset come from the rotated size, and the rest passes bit for
// bit.
TEST_P(RopeTest, AgreesWithThePaper) {
  for (RopeKind kind : {RopeKind::kPairs, RopeKind::kHalves}) {
    for (size_t head_dim : {size_t{8}, size_t{64}, size_t{80}, size_t{96}, size_t{128}, size_t{256}}) {
      for (size_t rotated : {head_dim, head_dim / 2, head_dim / 4, head_dim / 4 * 3}) {
        for (int64_t position : {0, 1, 700, 2355}) {
          const auto x = RandomFloats(head_dim, static_cast<uint32_t>(head_dim + rotated), 3.0f);
          const auto out = Rotate(kind, x, rotated, Angles({.base = 10000, .rotated = rotated}, position));
          std::vector<double> expected(head_dim);
          ReferenceRope(kind, x.data(), head_dim, rotated, 10000, position, expected.data());
          // Cosine and sine rounded once, two products and a sum: 3 roundings of at most |x| + |y| <= 6. The double
          // angle is off by 2^-53 * 2355 at most, which is nothing.
          for (size_t i = 0; i < rotated; ++i) {
            ASSERT_NEAR(out[i], expected[i], 3 * 6 * kUnit)
                << "head " << head_dim << " rotated " << rotated << " i " << i;
          }
          ASSERT_EQ(0, std::memcmp(out.data() + rotated, x.data() + rotated, (head_dim - rotated) * sizeof(float)));
        }
      }
    }
  }
}

TEST_P(RopeTest, PositionZeroChangesNothing) {
  const auto x = RandomFloats(64, 1, 3.0f);
  for (RopeKind kind : {RopeKind::kPairs, RopeKind::kHalves})
    EXPECT_EQ(Rotate(kind, x, 64, Angles({.rotated = 64}, 0)), x);
}

// Every count of pairs, in place, several heads with a stride: the same bits, and nothing beside.
TEST_P(RopeTest, InPlaceAndHeadByHead) {
  for (RopeKind kind : {RopeKind::kPairs, RopeKind::kHalves}) {
    for (size_t rotated = 2; rotated <= 68; rotated += 2) {
      const size_t head_dim = rotated + 3, stride = head_dim + 2, heads = 3;
      const Angles angles({.rotated = rotated}, 41);
      auto block = RandomFloats(heads * stride + 1, static_cast<uint32_t>(rotated));
      const auto original = block;
      float* first = block.data() + 1;
      GetRopeTable(GetParam())
          .rotate_heads({kind, first, stride, heads, head_dim, rotated, angles.cosines.data(), angles.sines.data(),
                         first, stride});
      for (size_t h = 0; h < heads; ++h) {
        const auto begin = original.begin() + 1 + h * stride;
        const auto alone = Rotate(kind, std::vector<float>(begin, begin + head_dim), rotated, angles);
        ASSERT_EQ(0, std::memcmp(alone.data(), first + h * stride, head_dim * sizeof(float))) << "rotated " << rotated;
        ASSERT_EQ(0, std::memcmp(first + h * stride + head_dim, &*begin + head_dim, 2 * sizeof(float)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, RopeTest, testing::ValuesIn(RunnableVariants()),
                         [](const auto& info) { return std::string(VariantName(info.param)); });

std::vector<double> Frequencies(const RopeScaling& scaling, double* magnitude) {
  std::vector<double> frequencies(scaling.rotated / 2);
  ComputeRopeFrequencies(scaling, frequencies.data(), magnitude);
  return frequencies;
}

TEST(RopeFrequencies, LinearScaleAndFactors) {
  const float factors[] = {1, 2, 8, 32};
  double magnitude = 0;
  const auto plain = Frequencies({.base = 500000, .rotated = 8}, &magnitude);
  EXPECT_EQ(magnitude, 1.0);
  const auto scaled = Frequencies({.base = 500000, .rotated = 8, .linear_scale = 0.25}, &magnitude);
  EXPECT_EQ(magnitude, 1.0);
  const auto divided = Frequencies({.base = 500000, .rotated = 8, .factors = factors}, &magnitude);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(plain[i], std::pow(500000.0, -static_cast<double>(i) / 4));
    EXPECT_EQ(scaled[i], plain[i] / 4);
    EXPECT_EQ(divided[i], plain[i] / double{factors[i]});
  }
}

// Expected values: the inverse frequencies of a separate program after the formulas of the paper's appendix A.1 and its
// reference code's index ramp (as in transformers' modeling_rope_utils), in double precision.
struct YarnCase {
  double base;
  size_t rotated;
  double factor, original_context, magnitude;
  std::vector<std::pair<size_t, double>> expected;
};

TEST(RopeFrequencies, Yarn) {
  const YarnCase cases[] = {{1e6,
                             128,
                             4,
                             32768,
                             1.138629436111989,
                             {{0, 1.0},
                              {23, 0.006978305848598663},
                              {24, 0.005375321490790102},
                              {30, 0.0010643609812470017},
                              {39, 6.490394320837028e-05},
                              {40, 4.445698525097307e-05},
                              {63, 3.102344401879299e-07}}},
                            {1e4,
                             64,
                             40,
                             4096,
                             1.3688879454113936,
                             {{0, 1.0},
                              {10, 0.056234132519034905},
                              {11, 0.03900692656714386},
                              {15, 0.008334508951020777},
                              {20, 0.0007905694150420945},
                              {23, 3.33380358040831e-05},
                              {31, 3.33380358040831e-06}}}};
  for (const YarnCase& c : cases) {
    double magnitude = 0;
    const auto frequencies = Frequencies({.base = c.base,
                                          .rotated = c.rotated,
                                          .linear_scale = 1 / c.factor,
                                          .extension_factor = 1,
                                          .original_context = c.original_context},
                                         &magnitude);
    EXPECT_NEAR(magnitude, c.magnitude, 1e-14);
    for (const auto& [i, value] : c.expected) EXPECT_NEAR(frequencies[i], value, 1e-12 * value) << i;
  }
}

TEST(RopeFrequencies, YarnMagnitudeScalesBothTables) {
  double magnitude = 0;
  const RopeScaling scaling{.base = 1e6,
                            .rotated = 64,
                            .linear_scale = 0.25,
                            .extension_factor = 1,
                            .original_context = 8192,
                            .attention_factor = 0.5};
  Frequencies(scaling, &magnitude);
  EXPECT_NEAR(magnitude, 0.5 * (1 + 0.1 * std::log(4.0)), 1e-15);
  const Angles angles(scaling, 12345);
  for (size_t i = 0; i < 32; ++i) {
    const double length = std::hypot(double{angles.cosines[i]}, double{angles.sines[i]});
    EXPECT_NEAR(length, magnitude, 2 * kUnit);
  }
}

}  // namespace
}  // namespace moonlit
