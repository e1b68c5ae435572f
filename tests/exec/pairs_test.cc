// SPDX-License-Identifier: Apache-2.0
// Attention in its plain form, by PairScores, Softmax and WeightedSum, against the formula in double precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/exec/plan.h"
#include "runtime/graph/graph.h"
#include "runtime/weights/memory_weights.h"
#include "tests/models/loaded_model.h"
#include "tests/smallops/variants.h"

namespace moonlit::test {
namespace {

using testing::HasSubstr;

constexpr size_t kIds = 40, kDim = 6, kKeys = 9;

// Queries, keys and values of a token are rows of tables; the head is the identity.
struct PairsModel {
  size_t heads = 4, kv_heads = 2;
  bool additive = false, masked = false;
  float scale = 1;
  float softcap = 0;
  std::vector<float> sinks = {};  // [heads], or none
  std::vector<float> q = RandomFloats(kIds * heads * kDim, 1, 2), k = RandomFloats(kIds * kv_heads * kDim, 2, 2);
  std::vector<float> v = RandomFloats(kIds * kv_heads * kDim, 3), w = RandomFloats(kDim, 4, 2);

  PairSpec Spec() const { return {.keys = kKeys, .heads = heads, .kv_heads = kv_heads, .softcap = softcap}; }

  Result<std::unique_ptr<Plan>> MakePlan(ThreadPool* pool) const {
    const size_t width = heads * kDim;
    std::vector<float> mask(kKeys * heads * kKeys), head(kIds * width);
    for (size_t i = 0; i < mask.size(); ++i) {
      const size_t row = i / (heads * kKeys), column = i % kKeys;
      mask[i] = column > row ? -std::numeric_limits<float>::infinity() : 0;
    }
    for (size_t i = 0; i < width; ++i) head[i * width + i] = 1;
    MemoryWeights weights;
    EXPECT_TRUE(weights.Add("q", {kIds, width}, q).ok() && weights.Add("k", {kIds, kv_heads * kDim}, k).ok());
    EXPECT_TRUE(weights.Add("v", {kIds, kv_heads * kDim}, v).ok() && weights.Add("w", {kDim}, w).ok());
    EXPECT_TRUE(weights.Add("mask", {kKeys, heads * kKeys}, mask).ok());
    EXPECT_TRUE(weights.Add("head", {kIds, width}, head).ok());
    if (!sinks.empty()) {
      EXPECT_TRUE(weights.Add("sinks", {heads}, sinks).ok());
    }
    Graph g;
    const auto row = [&](const char* name, size_t columns) { return g.Embed(g.Weight(name, {kIds, columns})); };
    const ValueId key = row("k", kv_heads * kDim);
    ValueId scores = g.PairScores(row("q", width), key, Spec(), additive ? g.Weight("w", {kDim}) : kNoWeight);
    scores = g.Scale(scores, scale);
    if (masked) scores = g.AddPositions(scores, g.Table("mask", {kKeys, heads * kKeys}));
    const WeightId sink = sinks.empty() ? kNoWeight : g.Weight("sinks", {heads});
    g.Logits(g.WeightedSum(g.Softmax(scores, heads, sink), row("v", kv_heads * kDim), Spec()),
             g.Weight("head", {kIds, width}));
    PlanOptions options{};
    options.variant = TestVariant();
    options.pool = pool;
    options.max_rows = 2 * kKeys;
    return Plan::Create(g, weights, options);
  }

  double Score(size_t query, size_t key, size_t h) const {
    const float* left = q.data() + (query * heads + h) * kDim;
    const float* right = k.data() + (key * kv_heads + h / (heads / kv_heads)) * kDim;
    double sum = 0;
    for (size_t c = 0; c < kDim; ++c) {
      const double x = static_cast<double>(left[c]), y = static_cast<double>(right[c]);
      sum += additive ? static_cast<double>(w[c]) * std::tanh(x + y) : x * y;
    }
    const auto cap = static_cast<double>(softcap);
    if (cap != 0) sum = cap * std::tanh(sum / cap);
    return sum * static_cast<double>(scale);
  }

  // Of the token at place `at` among `tokens`, [heads * kDim].
  std::vector<double> Expected(std::span<const int32_t> tokens, size_t at) const {
    std::vector<double> out(heads * kDim);
    for (size_t h = 0; h < heads; ++h) {
      double sum = sinks.empty() ? 0 : std::exp(static_cast<double>(sinks[h]));
      const size_t seen = masked ? at + 1 : tokens.size();
      for (size_t j = 0; j < seen; ++j) {
        const size_t key = static_cast<size_t>(tokens[j]);
        const double weight = std::exp(Score(static_cast<size_t>(tokens[at]), key, h));
        sum += weight;
        for (size_t c = 0; c < kDim; ++c)
          out[h * kDim + c] += weight * static_cast<double>(v[(key * kv_heads + h / (heads / kv_heads)) * kDim + c]);
      }
      for (size_t c = 0; c < kDim; ++c) out[h * kDim + c] /= sum;
    }
    return out;
  }
};

std::vector<std::vector<float>> RunTexts(const PairsModel& model, size_t threads,
                                         const std::vector<std::vector<int32_t>>& texts) {
  auto pool = ThreadPool::Create({.threads = threads});
  auto plan = model.MakePlan(pool->get());
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  std::vector<StepSpan> spans(texts.size());
  for (size_t s = 0; s < texts.size(); ++s) spans[s].tokens = texts[s], spans[s].outputs = Outputs::kAll;
  Collector collector(kIds, texts.size());
  const Status ran = (*plan)->Run(spans, &collector);
  EXPECT_TRUE(ran.ok()) << ran.ToString();
  return collector.rows;
}

const std::vector<std::vector<int32_t>> kTexts = {{3, 1, 4, 15, 9, 26, 5}, {35}, {8, 9, 7, 9, 3, 2, 3, 8, 4}};

void ExpectFormula(const PairsModel& model) {
  const auto rows = RunTexts(model, 2, kTexts);
  // A score is the sum of kDim terms of at most 4, and off by as many roundings of it (tanh by a few units of 1, times 2): so many
  // parts of a weight, twice, since the sum has them too; the softmax's own error has the bound of its test. Values are at most 1.
  const double score = kDim * (kDim * 4.0) * kUnit + kDim * 2 * 8 * kUnit;
  const double bound = 2 * score + (2 * 2 * 24 + 12 + kKeys) * kUnit;
  for (size_t s = 0; s < kTexts.size(); ++s) {
    ASSERT_EQ(rows[s].size(), kTexts[s].size() * kIds);
    for (size_t i = 0; i < kTexts[s].size(); ++i) {
      const std::vector<double> expected = model.Expected(kTexts[s], i);
      for (size_t c = 0; c < expected.size(); ++c)
        ASSERT_NEAR(rows[s][i * kIds + c], expected[c], bound) << "span " << s << " row " << i << " column " << c;
    }
  }
}

TEST(PairsTest, ScoresSoftmaxAndSumAreTheFormula) { ExpectFormula({.scale = 0.5f}); }
TEST(PairsTest, AMaskIsATableOfPositions) { ExpectFormula({.masked = true}); }
TEST(PairsTest, AdditiveScores) { ExpectFormula({.additive = true}); }
TEST(PairsTest, EveryHeadWithKeysOfItsOwn) { ExpectFormula({.heads = 3, .kv_heads = 3, .masked = true}); }
TEST(PairsTest, OneHeadOfKeysForAll) { ExpectFormula({.heads = 5, .kv_heads = 1, .additive = true, .masked = true}); }

TEST(PairsTest, ScoresAreCapped) { ExpectFormula({.masked = true, .scale = 0.5f, .softcap = 3}); }
// A sink that takes little, one that takes half, one that takes nearly all, and one whose exp overflows a float.
TEST(PairsTest, SinksTakeTheirShare) {
  ExpectFormula({.masked = true, .scale = 0.5f, .sinks = {-3, 2, 9, 90}});
  ExpectFormula({.heads = 2, .kv_heads = 2, .sinks = {-200, 0.5f}});
}

TEST(PairsTest, BitsDoNotDependOnThreadsNorOnOtherSpans) {
  const PairsModel model;
  const auto together = RunTexts(model, 3, kTexts);
  for (size_t s = 0; s < kTexts.size(); ++s) EXPECT_EQ(RunTexts(model, 1, {kTexts[s]})[0], together[s]);
}

TEST(PairsTest, ATextIsOneStepOfAtMostAsManyTokensAsScores) {
  auto pool = ThreadPool::Create({.threads = 1});
  auto plan = PairsModel().MakePlan(pool->get());
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_TRUE((*plan)->whole_sequences());
  EXPECT_FALSE((*plan)->can_shift());
  const std::vector<int32_t> tokens(kKeys + 1, 1);
  // At the first position, all of them: the limit is one of tokens.
  const std::vector<int32_t> positions(kKeys + 1, 0);
  StepSpan span{};
  span.tokens = tokens, span.positions = positions, span.outputs = Outputs::kNone;
  EXPECT_THAT(std::string((*plan)->Run({&span, 1}, nullptr).message()),
              HasSubstr("span 0 has 10 tokens: expected at most 9"));
  span.tokens = span.tokens.first(3), span.positions = {}, span.first_slot = 2;
  EXPECT_THAT(std::string((*plan)->Run({&span, 1}, nullptr).message()),
              HasSubstr("expected slot 0 and the whole text"));
}

TEST(MemoryWeightsTest, RefusesOtherSizes) {
  MemoryWeights weights;
  EXPECT_THAT(std::string(weights.Add("w", {2, 3}, std::vector<float>(5)).message()),
              HasSubstr("tensor w: expected [2, 3], and at least one value, it was given 5 values"));
  EXPECT_EQ(weights.Find("w"), nullptr);
  ASSERT_TRUE(weights.Add("w", {2, 2}, std::vector<float>{1, 2, 3, 4}).ok());
  float last[2] = {};
  EXPECT_TRUE(weights.Read(*weights.Find("w"), 8, last, 8).ok());
  EXPECT_EQ(last[1], 4.0f);
  EXPECT_THAT(std::string(weights.Read(*weights.Find("w"), 12, last, 8).message()),
              HasSubstr("bytes 12 to 20 are wanted"));
}

}  // namespace
}  // namespace moonlit::test
