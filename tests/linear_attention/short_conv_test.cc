// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <math.h>
#include <string.h>

#include <algorithm>

#include "kernels/linear_attention/linear_attention.h"
#include "kernels/linear_attention/reference.h"
#include "tests/smallops/variants.h"

namespace moonlit {
namespace {

struct Conv {
  size_t tokens, channels, width;
  std::vector<float> x, weight, bias;  // x: [width - 1 + tokens, channels], the first rows are the past
};

Conv RandomConv(size_t tokens, size_t channels, size_t width) {
  return {tokens,
          channels,
          width,
          RandomFloats((width - 1 + tokens) * channels, 1),
          RandomFloats(width * channels, 2),
          RandomFloats(channels, 3)};
}

// Outputs, then the state that is left. Calls of `call` tokens.
std::vector<float> RunConv(Variant variant, const Conv& c, size_t call, bool bias = true) {
  const size_t past = (c.width - 1) * c.channels;
  std::vector<float> state(c.x.begin(), c.x.begin() + static_cast<std::ptrdiff_t>(past));
  std::vector<float> out(c.tokens * c.channels);
  for (size_t t = 0; t < c.tokens; t += call) {
    ShortConvArgs args = {};
    args.tokens = std::min(call, c.tokens - t), args.channels = c.channels, args.width = c.width;
    args.x = c.x.data() + past + t * c.channels, args.x_stride = c.channels;
    args.weight = c.weight.data(), args.weight_stride = c.channels;
    args.bias = bias ? c.bias.data() : nullptr;
    args.out = out.data() + t * c.channels, args.out_stride = c.channels;
    args.state = state.data(), args.state_stride = c.channels;
    GetLinearAttentionTable(variant).short_conv(args);
  }
  EXPECT_TRUE(std::equal(state.begin(), state.end(), c.x.end() - static_cast<std::ptrdiff_t>(past)));
  return out;
}

TEST(ShortConv, IsWhatTheFormulaSays) {
  for (Variant variant : RunnableVariants()) {
    for (size_t width : {1u, 2u, 3u, 4u, 16u}) {
      for (size_t channels : {1u, 3u, 16u, 37u, 80u}) {
        for (bool bias : {false, true}) {
          const Conv c = RandomConv(21, channels, width);
          std::vector<double> expected(c.tokens * channels);
          ReferenceShortConv(c.tokens, channels, width, c.x.data(), c.weight.data(), bias ? c.bias.data() : nullptr,
                             expected.data());
          const std::vector<float> out = RunConv(variant, c, 21, bias);
          for (size_t i = 0; i < out.size(); ++i) {
            // width roundings of sums of at most width + 1.
            const double bound = static_cast<double>(2 * width * (width + 1)) * kUnit;
            ASSERT_NEAR(static_cast<double>(out[i]), expected[i], bound) << VariantName(variant) << " width " << width;
          }
        }
      }
    }
  }
}

TEST(ShortConv, CutsChangeNothing) {
  for (Variant variant : RunnableVariants()) {
    for (size_t width : {1u, 2u, 4u, 7u}) {
      const Conv c = RandomConv(40, 19, width);
      const std::vector<float> whole = RunConv(variant, c, 40);
      for (size_t call : {1u, 2u, 3u, 5u, 16u}) {
        const std::vector<float> cut = RunConv(variant, c, call);
        EXPECT_EQ(memcmp(cut.data(), whole.data(), whole.size() * sizeof(float)), 0) << VariantName(variant) << call;
      }
    }
  }
}

// rate * softplus: below 4 units in the last place of the result.
TEST(Decay, IsWhatTheFormulaSays) {
  std::vector<float> alpha = RandomFloats(3001, 4, 30.0f);
  const std::vector<float> near = RandomFloats(3001, 5, 2.0f);
  alpha.insert(alpha.end(), near.begin(), near.end());
  const std::vector<float> rate = RandomFloats(alpha.size(), 6, 4.0f, -4.5f), bias(alpha.size());
  for (Variant variant : RunnableVariants()) {
    std::vector<float> out(alpha.size());
    GetLinearAttentionTable(variant).decay(alpha.data(), rate.data(), bias.data(), out.data(), out.size());
    for (size_t i = 0; i < out.size(); ++i) {
      const double expected = ReferenceDecay(static_cast<double>(alpha[i]), static_cast<double>(rate[i]), 0.0);
      ASSERT_NEAR(static_cast<double>(out[i]), expected, 8 * kUnit * fabs(expected))
          << VariantName(variant) << " alpha " << alpha[i];
    }
  }
}

TEST(Decay, AddsTheBiasAndKeepsTheExtremesInOrder) {
  const float alpha[] = {1.0f, -kInf, kInf, kNan, -200.0f, 1e30f}, bias[] = {-1.0f, 0, 0, 0, 0, 0};
  const float rate[] = {-2.0f, -2, -2, -2, -2, -2};
  for (Variant variant : RunnableVariants()) {
    float out[6];
    GetLinearAttentionTable(variant).decay(alpha, rate, bias, out, 6);
    EXPECT_NEAR(static_cast<double>(out[0]), -2 * log(2.0), 8 * kUnit);
    EXPECT_EQ(out[1], 0.0f);
    EXPECT_EQ(out[2], -kInf);
    EXPECT_TRUE(isnan(out[3]));
    EXPECT_EQ(out[4], 0.0f);
    EXPECT_EQ(out[5], -2e30f);
  }
}

}  // namespace
}  // namespace moonlit
