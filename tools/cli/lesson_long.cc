// SPDX-License-Identifier: Apache-2.0
// Attention that never stores its table of scores, and attention that leaves scores out.
#include <cmath>

#include "tools/cli/lesson_sections.h"

namespace moonlit::cli {
namespace {

struct Text {
  Matrix q, k, v;
};

Text RandomText(size_t tokens, size_t dim, uint64_t seed) {
  return {RandomNormal(tokens, dim, seed), RandomNormal(tokens, dim, seed + 1), RandomNormal(tokens, dim, seed + 2)};
}

// By graph ops, with the whole table of scores.
Result<Matrix> Plain(LessonMachine& machine, const Text& text, float scale, const Matrix& mask) {
  const size_t tokens = text.q.rows;
  LessonGraph g(machine, std::max(tokens, text.v.columns));
  ValueId scores = g.ops.PairScores(g.Input("q", text.q), g.Input("k", text.k), {.keys = tokens});
  scores = g.ops.AddPositions(g.ops.Scale(scores, scale), g.Table("mask", mask));
  return g.Run(g.ops.WeightedSum(g.ops.Softmax(scores), g.Input("v", text.v), {.keys = tokens}), tokens);
}

size_t Seen(const Matrix& mask) {
  size_t seen = 0;
  for (float x : mask.values) seen += x == 0 ? 1 : 0;
  return seen;
}

// phi(x) = elu(x) + 1.
double Feature(float x) { return x > 0 ? static_cast<double>(x) + 1 : std::exp(static_cast<double>(x)); }

// The quadratic form of linear attention, in double precision: weights phi(q) . phi(k) over their sum.
Matrix LinearByPairs(const Text& text) {
  const size_t dim = text.q.columns;
  Matrix out = Filled(text.q.rows, text.v.columns, 0);
  for (size_t i = 0; i < text.q.rows; ++i) {
    std::vector<double> sums(text.v.columns);
    double total = 0;
    for (size_t j = 0; j <= i; ++j) {
      double weight = 0;
      for (size_t c = 0; c < dim; ++c) weight += Feature(text.q.at(i, c)) * Feature(text.k.at(j, c));
      total += weight;
      for (size_t c = 0; c < sums.size(); ++c) sums[c] += weight * static_cast<double>(text.v.at(j, c));
    }
    for (size_t c = 0; c < sums.size(); ++c) out.at(i, c) = static_cast<float>(sums[c] / total);
  }
  return out;
}

Status Linear(LessonPage& page, LessonMachine& machine) {
  constexpr size_t kTokens = 200, kDim = 16;
  page.Say(LessonText::kLinearIntro);
  const Text text = RandomText(kTokens, kDim, 60);
  LessonGraph g(machine, kTokens);
  RecurrentSpec spec;
  spec.key_heads = spec.value_heads = 1;
  spec.key_dim = spec.value_dim = kDim;
  const ValueId out = g.ops.LinearAttention(g.Input("q", text.q), g.Input("k", text.k), g.Input("v", text.v), spec);
  MOONLIT_ASSIGN_OR_RETURN(const Matrix linear, g.Run(out, kTokens));
  const double error = LargestDifference(linear, LinearByPairs(text));
  page.Line(LessonText::kLinearState, Format("%zu  %zu", kDim * kDim + kDim, kTokens * 2 * kDim));
  page.Claim(LessonText::kLinearIsPairs, error < 1e-4, Format("%.1e", error));
  return Status();
}

}  // namespace

Status LessonStreaming(LessonPage& page, LessonMachine& machine) {
  page.Say(LessonText::kStreamingIntro);
  // Values that are the identity bring the weights out; keys of one element that are the scores, and a query of 1.
  const Matrix one = Filled(1, 1, 1), scores{kVerseTokens, 1, {0.1f, 0.0f, 0.9f, 1.0f, 0.8f}};
  Matrix identity = Filled(kVerseTokens, kVerseTokens, 0);
  for (size_t i = 0; i < kVerseTokens; ++i) identity.at(i, i) = 1;
  MOONLIT_ASSIGN_OR_RETURN(const Matrix weights, RunFused(machine, one, scores, identity, {.causal = false}));
  page.Line(LessonText::kStreamingVerse, RowText(weights, 0));
  page.Claim(LessonText::kScoresFigures, RowText(weights, 0) == " 0.12  0.11  0.26  0.29  0.23");

  constexpr size_t kTokens = 600, kDim = 32;  // two segments, ten tiles
  const Text text = RandomText(kTokens, kDim, 50);
  const float scale = 1 / std::sqrt(static_cast<float>(kDim));
  MOONLIT_ASSIGN_OR_RETURN(const Matrix plain, Plain(machine, text, scale, MaskTable(kTokens, 1, &Causal)));
  MOONLIT_ASSIGN_OR_RETURN(const Matrix fused, RunFused(machine, text.q, text.k, text.v, {.scale = scale}));
  page.Line(LessonText::kStreamingTable,
            Format("%zu x %zu = %zu KiB", kTokens, kTokens, kTokens * kTokens * sizeof(float) / 1024));
  const double difference = LargestDifference(plain, fused);
  page.Claim(LessonText::kStreamingIsPlain, difference < 2e-6, Format("%.1e", difference));
  const double error = LargestDifference(
      fused, PlainAttention{.q = text.q, .k = text.k, .v = text.v, .scale = static_cast<double>(scale)}.Outputs());
  page.Claim(LessonText::kStreamingIsExact, error < 2e-6, Format("%.1e", error));
  return Status();
}

Status LessonPatterns(LessonPage& page, LessonMachine& machine) {
  page.Say(LessonText::kPatternsIntro);
  constexpr size_t kTokens = 200, kDim = 32, kWindow = 32, kSinks = 64;
  const Text text = RandomText(kTokens, kDim, 55);
  const float scale = 1 / std::sqrt(static_cast<float>(kDim));
  const Matrix all = MaskTable(kTokens, 1, &Causal);
  const Matrix window = MaskTable(kTokens, 1, [](size_t i, size_t j) { return j <= i && i - j < kWindow; });
  const Matrix sparse =
      MaskTable(kTokens, 1, [](size_t i, size_t j) { return j <= i && (i - j < kWindow || j < kSinks); });
  page.Line(LessonText::kPatternsSeen, Format("%zu  %zu  %zu", Seen(all), Seen(window), Seen(sparse)));
  page.Claim(LessonText::kPatternsFewer, Seen(window) < Seen(sparse) && Seen(sparse) < Seen(all));
  const struct {
    LessonText claim;
    const Matrix& mask;
    size_t sinks;
  } patterns[] = {{LessonText::kWindowIsMask, window, 0}, {LessonText::kSparseIsMask, sparse, kSinks}};
  for (const auto& [claim, mask, sinks] : patterns) {
    MOONLIT_ASSIGN_OR_RETURN(const Matrix plain, Plain(machine, text, scale, mask));
    MOONLIT_ASSIGN_OR_RETURN(const Matrix fused, RunFused(machine, text.q, text.k, text.v,
                                                          {.scale = scale, .window = kWindow, .sink_slots = sinks}));
    const double difference = LargestDifference(plain, fused);
    page.Claim(claim, difference < 2e-6, Format("%.1e", difference));
  }
  return Linear(page, machine);
}

}  // namespace moonlit::cli
