// SPDX-License-Identifier: Apache-2.0
// What the lesson claims, checked from outside: the runtime's graph ops and kernels against formulas in double precision that are
// written here and nowhere else. (The command's own checks are its own; tests/e2e runs them.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/cli/lesson_graph.h"

namespace moonlit::cli {
namespace {

using Doubles = std::vector<std::vector<double>>;

class LessonClaims : public testing::Test {
 protected:
  void SetUp() override {
    auto made = LessonMachine::Make();
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    machine_ = std::move(made).value();
  }

  static Matrix Value(Result<Matrix> result) {
    EXPECT_TRUE(result.ok()) << result.status().ToString();
    return result.ok() ? std::move(result).value() : Matrix{};
  }

  // Weights of one head by graph ops; sequences of `span` rows.
  Matrix Weights(const Matrix& q, const Matrix& k, float scale, const Matrix* mask, size_t span = 0) {
    const size_t keys = span == 0 ? q.rows : span;
    LessonGraph g(machine_, q.rows);
    ValueId scores = g.ops.PairScores(g.Input("q", q), g.Input("k", k), {.keys = keys});
    scores = g.ops.Scale(scores, scale);
    if (mask != nullptr) scores = g.ops.AddPositions(scores, g.Table("mask", *mask));
    return Value(g.Run(g.ops.Softmax(scores), q.rows, span));
  }

  LessonMachine machine_;
};

double Exactly(const Matrix& m, size_t i, size_t j) { return static_cast<double>(m.at(i, j)); }

// softmax of row i over keys [0, seen).
std::vector<double> ExactRow(const Matrix& q, const Matrix& k, double scale, size_t i, size_t seen) {
  std::vector<double> row(seen);
  double sum = 0;
  for (size_t j = 0; j < seen; ++j) {
    for (size_t c = 0; c < q.columns; ++c) row[j] += Exactly(q, i, c) * Exactly(k, j, c);
    sum += row[j] = std::exp(row[j] * scale);
  }
  for (double& x : row) x /= sum;
  return row;
}

void ExpectRowsSumToOne(const Matrix& weights) {
  for (size_t i = 0; i < weights.rows; ++i) {
    double sum = 0;
    for (size_t j = 0; j < weights.columns; ++j) sum += Exactly(weights, i, j);
    EXPECT_NEAR(sum, 1, 1e-6) << "row " << i;
  }
}

TEST_F(LessonClaims, TheLowerTriangleAverages) {
  constexpr size_t kTokens = 5;
  const Matrix x = RandomNormal(kTokens, 4, 100);
  Matrix triangle = Filled(kTokens, kTokens, 0);
  for (size_t i = 0; i < kTokens; ++i) {
    for (size_t j = 0; j <= i; ++j) triangle.at(i, j) = 1.0f / static_cast<float>(i + 1);
  }
  LessonGraph g(machine_, kTokens);
  const Matrix out =
      Value(g.Run(g.ops.WeightedSum(g.Input("w", triangle), g.Input("x", x), {.keys = kTokens}), kTokens));
  for (size_t c = 0; c < 4; ++c) {
    const double third = (Exactly(x, 0, c) + Exactly(x, 1, c) + Exactly(x, 2, c)) / 3;
    EXPECT_NEAR(out.at(2, c), third, 1e-6);
    EXPECT_EQ(out.at(0, c), x.at(0, c));
  }
}

TEST_F(LessonClaims, TheVerseHasTheSeedsFigures) {
  const Matrix keys{5, 2, {0.1f, 0.9f, 0.0f, 1.0f, 0.9f, 0.1f, 1.0f, 0.0f, 0.8f, 0.2f}};
  Matrix query = Filled(5, 2, 0);
  for (size_t i = 0; i < 5; ++i) query.at(i, 0) = 1;
  const Matrix plain = Weights(query, keys, 1, nullptr), sharp = Weights(query, keys, 5, nullptr);
  const double expected[] = {0.12, 0.11, 0.26, 0.29, 0.23}, five_times[] = {0.01, 0.00, 0.30, 0.50, 0.18};
  for (size_t j = 0; j < 5; ++j) {
    EXPECT_NEAR(plain.at(4, j), expected[j], 0.005);
    EXPECT_NEAR(sharp.at(4, j), five_times[j], 0.005);
  }
  // The query [0, 1] of the first exercise.
  for (size_t i = 0; i < 5; ++i) query.at(i, 0) = 0, query.at(i, 1) = 1;
  const Matrix place = Weights(query, keys, 1, nullptr);
  const std::vector<double> exact = ExactRow(query, keys, 1, 0, 5);
  for (size_t j = 0; j < 5; ++j) EXPECT_NEAR(place.at(0, j), exact[j], 1e-6);
  EXPECT_EQ(std::max_element(exact.begin(), exact.end()) - exact.begin(), 1);
}

TEST_F(LessonClaims, TheCausalMaskHidesTheFuture) {
  for (size_t tokens : {size_t{1}, size_t{4}, size_t{5}, size_t{37}}) {
    const Matrix q = RandomNormal(tokens, 8, 101), k = RandomNormal(tokens, 8, 102);
    const Matrix mask = MaskTable(tokens, 1, &Causal);
    const Matrix weights = Weights(q, k, 1 / std::sqrt(8.0f), &mask);
    ASSERT_EQ(weights.rows, tokens);
    ASSERT_EQ(weights.columns, tokens);
    ExpectRowsSumToOne(weights);
    for (size_t i = 0; i < tokens; ++i) {
      const std::vector<double> exact = ExactRow(q, k, 1 / std::sqrt(8.0), i, i + 1);
      for (size_t j = 0; j < tokens; ++j) {
        if (j > i) {
          EXPECT_EQ(weights.at(i, j), 0.0f);
        } else {
          EXPECT_NEAR(weights.at(i, j), exact[j], 1e-6);
        }
      }
    }
    if (tokens != 4) continue;
    EXPECT_GT(weights.at(1, 0), 0.0f);
    EXPECT_GT(weights.at(1, 1), 0.0f);
    EXPECT_NEAR(weights.at(1, 0) + weights.at(1, 1), 1, 1e-6);
  }
}

// Every wrong mask is found by one of the two checks that the right one passes.
TEST_F(LessonClaims, WrongMasksShow) {
  constexpr size_t kTokens = 5;
  const Matrix q = RandomNormal(kTokens, 8, 103), k = RandomNormal(kTokens, 8, 104);
  const Matrix open = Weights(q, k, 1 / std::sqrt(8.0f), nullptr);
  const Matrix flipped = MaskTable(kTokens, 1, [](size_t i, size_t j) { return j >= i; });
  const Matrix future = Weights(q, k, 1 / std::sqrt(8.0f), &flipped);
  for (size_t i = 0; i + 1 < kTokens; ++i) {
    double kept = 0, ahead = 0;
    for (size_t j = 0; j < kTokens; ++j) {
      if (j <= i) kept += Exactly(open, i, j);
      if (j > i) ahead += Exactly(future, i, j);
    }
    EXPECT_LT(kept, 1 - 1e-3) << "masked after the softmax, row " << i << " still sums to 1";
    EXPECT_GT(ahead, 1e-3);
  }
  for (size_t i = 1; i < kTokens; ++i) EXPECT_EQ(future.at(i, 0), 0.0f);
  ExpectRowsSumToOne(future);
}

TEST_F(LessonClaims, DotsVaryAsTheRootOfTheDimension) {
  constexpr size_t kTexts = 128, kTokens = 5, kRows = kTexts * kTokens;
  double before = 0;
  for (size_t d : {16, 64, 256, 1024}) {
    const double root = std::sqrt(static_cast<double>(d));
    const Matrix q = RandomNormal(kRows, d, 6), k = RandomNormal(kRows, d, 7);
    LessonGraph g(machine_, kRows);
    const ValueId dots = g.ops.PairScores(g.Input("q", q), g.Input("k", k), {.keys = kTokens});
    const Matrix scores = Value(g.Run(dots, kRows, kTokens));
    double squares = 0;
    for (float x : scores.values) squares += static_cast<double>(x) * static_cast<double>(x);
    const double deviation = std::sqrt(squares / static_cast<double>(scores.values.size()));
    EXPECT_NEAR(deviation / root, 1, 0.05) << d;
    double raw = 0, scaled = 0;  // means of each row's largest weight, from the runtime's scores
    for (size_t i = 0; i < kRows; ++i) {
      double raw_sum = 0, scaled_sum = 0, largest = -INFINITY;
      for (size_t j = 0; j < kTokens; ++j) largest = std::max(largest, Exactly(scores, i, j));
      for (size_t j = 0; j < kTokens; ++j) {
        raw_sum += std::exp(Exactly(scores, i, j) - largest);
        scaled_sum += std::exp((Exactly(scores, i, j) - largest) / root);
      }
      raw += 1 / raw_sum / kRows, scaled += 1 / scaled_sum / kRows;
    }
    EXPECT_GT(raw, std::max(before, 0.75)) << d;
    EXPECT_GT(scaled, 0.35) << d;
    EXPECT_LT(scaled, 0.6) << d;
    before = raw;
  }
  EXPECT_GT(before, 0.9);
}

// x -> q, k, v -> weights -> sum, all in one graph: with the mask and, the second exercise, without.
TEST_F(LessonClaims, OneHeadIsTheFormula) {
  constexpr size_t kTokens = 5, kModel = 16, kDim = 8;
  const Matrix x = RandomNormal(kTokens, kModel, 110);
  const Matrix w[3] = {RandomNormal(kDim, kModel, 111, 0.25), RandomNormal(kDim, kModel, 112, 0.25),
                       RandomNormal(kDim, kModel, 113, 0.25)};
  Doubles qkv[3];
  for (size_t m = 0; m < 3; ++m) {
    qkv[m].assign(kTokens, std::vector<double>(kDim));
    for (size_t i = 0; i < kTokens; ++i) {
      for (size_t c = 0; c < kDim; ++c) {
        for (size_t d = 0; d < kModel; ++d) qkv[m][i][c] += Exactly(x, i, d) * Exactly(w[m], c, d);
      }
    }
  }
  for (bool masked : {true, false}) {
    LessonGraph g(machine_, kModel);
    const ValueId in = g.Input("x", x);
    const ValueId q = g.ops.Linear(in, g.Weight("q", w[0])), k = g.ops.Linear(in, g.Weight("k", w[1]));
    const ValueId v = g.ops.Linear(in, g.Weight("v", w[2]));
    ValueId scores = g.ops.Scale(g.ops.PairScores(q, k, {.keys = kTokens}), 1 / std::sqrt(8.0f));
    if (masked) scores = g.ops.AddPositions(scores, g.Table("mask", MaskTable(kTokens, 1, &Causal)));
    const Matrix out = Value(g.Run(g.ops.WeightedSum(g.ops.Softmax(scores), v, {.keys = kTokens}), kTokens));
    for (size_t i = 0; i < kTokens; ++i) {
      std::vector<double> expected(kDim);
      double sum = 0;
      for (size_t j = 0; j < (masked ? i + 1 : kTokens); ++j) {
        double score = 0;
        for (size_t c = 0; c < kDim; ++c) score += qkv[0][i][c] * qkv[1][j][c];
        const double weight = std::exp(score / std::sqrt(8.0));
        sum += weight;
        for (size_t c = 0; c < kDim; ++c) expected[c] += weight * qkv[2][j][c];
      }
      for (size_t c = 0; c < kDim; ++c) EXPECT_NEAR(out.at(i, c), expected[c] / sum, 1e-6) << i << " " << masked;
    }
  }
}

// The fused kernel's streaming softmax against the formula, over tiles and a segment's end.
TEST_F(LessonClaims, StreamingIsTheFormula) {
  constexpr size_t kTokens = 530, kDim = 16;
  const Matrix q = RandomNormal(kTokens, kDim, 120), k = RandomNormal(kTokens, kDim, 121);
  const Matrix v = RandomNormal(kTokens, kDim, 122);
  const Matrix fused = Value(RunFused(machine_, q, k, v, {.scale = 0.25f}));
  for (size_t i : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{511}, size_t{512}, size_t{529}}) {
    const std::vector<double> weights = ExactRow(q, k, 0.25, i, i + 1);
    for (size_t c = 0; c < kDim; ++c) {
      double expected = 0;
      for (size_t j = 0; j <= i; ++j) expected += weights[j] * Exactly(v, j, c);
      EXPECT_NEAR(fused.at(i, c), expected, 2e-6) << "row " << i;
    }
  }
}

TEST_F(LessonClaims, BatchesHaveAShapeOfTheirOwn) {
  constexpr size_t kTexts = 3, kTokens = 4, kHeads = 2, kDim = 6;
  const Matrix q = RandomNormal(kTexts * kTokens, kHeads * kDim, 130),
               k = RandomNormal(kTexts * kTokens, kHeads * kDim, 131);
  LessonGraph g(machine_, kTexts * kTokens);
  const PairSpec pairs{.keys = kTokens, .heads = kHeads, .kv_heads = kHeads};
  const ValueId weights = g.ops.Softmax(g.ops.PairScores(g.Input("q", q), g.Input("k", k), pairs), kHeads);
  const Matrix all = Value(g.Run(weights, kTexts * kTokens, kTokens));
  EXPECT_EQ(all.values.size(), kTexts * kHeads * kTokens * kTokens);  // (batch, heads, seq, seq)
  ExpectRowsSumToOne({all.rows * kHeads, kTokens, all.values});
}

}  // namespace
}  // namespace moonlit::cli
