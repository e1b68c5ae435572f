// SPDX-License-Identifier: Apache-2.0
// Both forms of both recurrences against float64, and against each other.
#include <math.h>

#include "tests/linear_attention/fixture.h"
#include "tests/support/slowed.h"

namespace moonlit {
namespace {

void ExpectBothForms(const Problem& p, double bound) {
  const Reference expected = Expected(p);
  for (Variant variant : RunnableVariants()) {
    const Outcome chunked = RunHead(variant, p), stepped = RunHead(variant, p, {.steps_only = true});
    EXPECT_LE(OutputErrors(p, chunked.out, expected.out).worst, bound) << Describe(variant, p) << ", chunked";
    EXPECT_LE(OutputErrors(p, stepped.out, expected.out).worst, bound) << Describe(variant, p) << ", stepped";
    EXPECT_LE(StateError(p, chunked.state, expected.state), bound) << Describe(variant, p) << ", chunked";
    EXPECT_LE(StateError(p, stepped.state, expected.state), bound) << Describe(variant, p) << ", stepped";
    EXPECT_LE(Difference(p, chunked, stepped), kBetweenForms) << Describe(variant, p);
    if (p.tokens >= 3 * kRecurrentChunk && p.key_dim > 16) {
      EXPECT_FALSE(SameBits(chunked.out, stepped.out)) << "both runs took one form: " << Describe(variant, p);
    }
  }
}

TEST(RecurrentAccuracy, HeadsOfEverySize) {
  const size_t sizes[][2] = {{1, 1}, {2, 3}, {16, 16}, {17, 33}, {48, 80}, {64, 64}, {100, 24}, {128, 128}};
  for (Kind kind : kKinds) {
    for (const auto& [key_dim, value_dim] : sizes) {
      const Problem p = RandomProblem(kind, 200, key_dim, value_dim, 10);
      ExpectBothForms(p, Bound(p));
    }
  }
}

TEST(RecurrentAccuracy, WithoutNormsAndWithKeysOfOtherLengths) {
  Problem p = RandomProblem(Kind::kDelta, 200, 40, 24, 20);
  p.normalise = false;
  p.scale = 1;
  for (float& x : p.k)
    x *= 0.3f;  // |k|^2 is about 1.2: beta |k|^2 stays below 2, where the rule stops being a contraction
  ExpectBothForms(p, Bound(p));
}

TEST(RecurrentAccuracy, LongTexts) {
  for (Kind kind : kKinds) {
    // What is slowed leaves the last three quarters to fast builds.
    Problem p = RandomProblem(kind, kSlowed ? 1024 : 4096, 64, 48, 30);
    // Sums of thousands of terms that never decay wander from the truth as their square root.
    ExpectBothForms(p, 2 * Bound(p));
    if (kind == Kind::kLinear) continue;
    p.decay.assign(p.tokens, 0.0f);
    ExpectBothForms(p, 2 * Bound(p));
  }
}

TEST(RecurrentAccuracy, ExtremeDecays) {
  const float patterns[][4] = {
      {0, 0, 0, 0},           {-20, -20, -20, -20}, {0, -20, 0, -20},           {-80, -1e-3f, -1e-3f, -1e-3f},
      {-1e-7f, 0, -1e-7f, 0}, {-kInf, 0, 0, 0},     {-1e30f, -0.5f, -0.5f, -1}, {-kInf, -kInf, -kInf, -kInf}};
  for (const auto& pattern : patterns) {
    for (size_t period : {1u, 7u}) {  // every pattern in a row, and spread out between decays of -0.01
      Problem p = RandomProblem(Kind::kDelta, 200, 32, 32, 40);
      for (size_t t = 0; t < p.tokens; ++t) p.decay[t] = t % period == 0 ? pattern[t / period % 4] : -0.01f;
      ExpectBothForms(p, Bound(p));
    }
  }
}

TEST(RecurrentAccuracy, BetaOfOneAndAbove) {
  for (float beta : {1.0f, 1.9f}) {
    Problem p = RandomProblem(Kind::kDelta, 200, 32, 32, 50);
    p.beta.assign(p.tokens, beta);
    ExpectBothForms(p, Bound(p));
    p.decay.assign(p.tokens, 0.0f);
    ExpectBothForms(p, Bound(p));
  }
}

// The same key again and again, the system of equations at its most dense: each token replaces what the one before wrote.
TEST(RecurrentAccuracy, OneKeyForAllTokens) {
  Problem p = RandomProblem(Kind::kDelta, 192, 32, 32, 60);
  p.beta.assign(p.tokens, 1.0f);
  p.decay.assign(p.tokens, 0.0f);
  p.scale = 1;
  p.eps = 1e-12f;
  for (size_t i = 0; i < p.q.size(); ++i) p.q[i] = p.k[i] = p.k[i % p.key_dim];
  ExpectBothForms(p, Bound(p));
  for (Variant variant : RunnableVariants()) {
    const Outcome outcome = RunHead(variant, p);
    for (size_t i = 0; i < outcome.out.size(); ++i) {
      ASSERT_NEAR(outcome.out[i], p.v[i], 64 * kUnit) << Describe(variant, p) << " at " << i;
    }
  }
}

// Orthogonal keys: what each one wrote can be read at any time after.
TEST(RecurrentAccuracy, OrthogonalKeysKeepTheirValues) {
  Problem p = RandomProblem(Kind::kDelta, 128, 64, 16, 70);
  p.decay.assign(p.tokens, 0.0f);
  p.beta.assign(p.tokens, 1.0f);
  p.scale = 1;
  p.eps = 1e-12f;
  for (size_t t = 0; t < p.tokens; ++t) {
    for (size_t d = 0; d < 64; ++d) {
      p.k[t * 64 + d] = d == t % 64 ? 2.0f : 0.0f;
      p.q[t * 64 + d] = d == (t + 1) % 64 ? 3.0f : 0.0f;
    }
  }
  for (Variant variant : RunnableVariants()) {
    for (bool steps : {false, true}) {
      const Outcome outcome = RunHead(variant, p, {.steps_only = steps});
      for (size_t t = 64; t < p.tokens; ++t) {
        for (size_t j = 0; j < 16; ++j) {
          ASSERT_NEAR(outcome.out[t * 16 + j], p.v[(t + 1 - 64) * 16 + j], 4 * kUnit) << Describe(variant, p);
        }
      }
    }
  }
}

void ExpectZeros(const Problem& p) {
  for (Variant variant : RunnableVariants()) {
    for (bool steps : {false, true}) {
      const Outcome outcome = RunHead(variant, p, {.steps_only = steps});
      EXPECT_EQ(outcome.out, std::vector<float>(outcome.out.size())) << Describe(variant, p);
      EXPECT_EQ(outcome.state, std::vector<float>(outcome.state.size())) << Describe(variant, p);
    }
  }
}

TEST(RecurrentAccuracy, ZeroKeysAndBetaOfZeroWriteNothing) {
  Problem p = RandomProblem(Kind::kDelta, 130, 24, 24, 80);
  p.beta.assign(p.tokens, 0.0f);
  ExpectZeros(p);
  p = RandomProblem(Kind::kDelta, 130, 24, 24, 81);
  p.k.assign(p.k.size(), 0.0f);
  ExpectZeros(p);
}

// Keys of zeros have the features 1: every token counts the same, and the output is the mean of the values.
TEST(RecurrentAccuracy, LinearAttentionOverZeroKeysIsTheMean) {
  Problem p = RandomProblem(Kind::kLinear, 200, 20, 12, 90);
  p.k.assign(p.k.size(), 0.0f);
  p.eps = 0;
  std::vector<double> mean(p.v.size()), sum(12);
  for (size_t i = 0; i < p.v.size(); ++i) {
    sum[i % 12] += static_cast<double>(p.v[i]);
    mean[i] = sum[i % 12] / static_cast<double>(i / 12 + 1);
  }
  for (Variant variant : RunnableVariants()) {
    EXPECT_LE(OutputErrors(p, RunHead(variant, p).out, mean).worst, Bound(p)) << Describe(variant, p);
    EXPECT_LE(OutputErrors(p, RunHead(variant, p, {.steps_only = true}).out, mean).worst, Bound(p))
        << Describe(variant, p);
  }
}

TEST(RecurrentAccuracy, LinearAttentionOfFeaturesFarFromOne) {
  Problem p = RandomProblem(Kind::kLinear, 150, 24, 16, 100);
  for (float& x : p.q) x *= 30;  // exp(-30) .. 31
  for (float& x : p.k) x *= 30;
  p.eps = 0;
  ExpectBothForms(p, Bound(p));
}

TEST(RecurrentAccuracy, ADenominatorOfZeroGivesZeros) {
  Problem p = RandomProblem(Kind::kLinear, 130, 24, 16, 110);
  p.q.assign(p.q.size(), -200.0f);
  p.eps = 0;
  for (Variant variant : RunnableVariants()) {
    for (bool steps : {false, true}) {
      const Outcome outcome = RunHead(variant, p, {.steps_only = steps});
      EXPECT_EQ(outcome.out, std::vector<float>(outcome.out.size())) << Describe(variant, p);
    }
  }
}

}  // namespace
}  // namespace moonlit
