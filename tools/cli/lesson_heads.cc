// SPDX-License-Identifier: Apache-2.0
// One head from input to output, three ways to score, and several heads that share keys and values.
#include <cmath>

#include "tools/cli/lesson_sections.h"

namespace moonlit::cli {
namespace {

constexpr size_t kModel = 16, kHead = 8;

struct Projections {
  Matrix x, q, k, v;
};

// x W^T by the runtime's product.
Result<Matrix> Product(LessonMachine& machine, const Matrix& x, const Matrix& w) {
  LessonGraph g(machine, std::max(x.rows, w.rows));
  return g.Run(g.ops.Linear(g.Input("x", x), g.Weight("w", w)), x.rows);
}

Result<Projections> Project(LessonMachine& machine, size_t tokens, size_t q_width, size_t kv_width, uint64_t seed) {
  const double deviation = 1 / std::sqrt(static_cast<double>(kModel));
  Projections p;
  p.x = RandomNormal(tokens, kModel, seed);
  MOONLIT_ASSIGN_OR_RETURN(p.q, Product(machine, p.x, RandomNormal(q_width, kModel, seed + 1, deviation)));
  MOONLIT_ASSIGN_OR_RETURN(p.k, Product(machine, p.x, RandomNormal(kv_width, kModel, seed + 2, deviation)));
  MOONLIT_ASSIGN_OR_RETURN(p.v, Product(machine, p.x, RandomNormal(kv_width, kModel, seed + 3, deviation)));
  return p;
}

struct Kind {
  PairSpec pairs = {};
  float scale = 1;
  bool masked = true;
  const std::vector<float>* additive = nullptr;
};

// The weights, and with `sum` their sums of v.
Result<Matrix> Attend(LessonMachine& machine, const Projections& p, const Kind& kind, bool sum) {
  const size_t tokens = p.x.rows, heads = kind.pairs.heads;
  LessonGraph g(machine, std::max({heads * tokens, p.q.columns, tokens}));
  const WeightId w = kind.additive == nullptr ? kNoWeight : g.Vector("w", *kind.additive);
  ValueId scores = g.ops.PairScores(g.Input("q", p.q), g.Input("k", p.k), kind.pairs, w);
  scores = g.ops.Scale(scores, kind.scale);
  if (kind.masked) scores = g.ops.AddPositions(scores, g.Table("mask", MaskTable(tokens, heads, &Causal)));
  const ValueId weights = g.ops.Softmax(scores, heads);
  return g.Run(sum ? g.ops.WeightedSum(weights, g.Input("v", p.v), kind.pairs) : weights, tokens);
}

// One head with or without the mask, against double precision and against the fused kernel. Its weights.
Result<Matrix> CompareHead(LessonPage& page, LessonMachine& machine, bool masked) {
  MOONLIT_ASSIGN_OR_RETURN(const Projections p, Project(machine, kVerseTokens, kHead, kHead, 10));
  const float scale = 1 / std::sqrt(static_cast<float>(kHead));
  const Kind kind{.pairs = {.keys = kVerseTokens}, .scale = scale, .masked = masked};
  MOONLIT_ASSIGN_OR_RETURN(const Matrix weights, Attend(machine, p, kind, false));
  MOONLIT_ASSIGN_OR_RETURN(const Matrix out, Attend(machine, p, kind, true));
  page.Line(LessonText::kHeadShapes,
            Format("(1, %zu, %zu) -> q, k, v (1, 1, %zu, %zu) -> q k^T (1, 1, %zu, %zu) -> (1, %zu, %zu)", p.x.rows,
                   p.x.columns, p.q.rows, p.q.columns, weights.rows, weights.columns, out.rows, out.columns));
  page.Show(LessonText::kMaskWeights, weights);
  page.Claim(LessonText::kHeadShapeIsRight, weights.rows == kVerseTokens && weights.columns == kVerseTokens);
  page.Claim(LessonText::kRowsSumToOne, RowSumError(weights) < 1e-6, Format("%.1e", RowSumError(weights)));
  const Matrix exact =
      PlainAttention{
          .q = p.q, .k = p.k, .v = p.v, .scale = static_cast<double>(scale), .sees = masked ? &Causal : nullptr}
          .Outputs();
  const double error = LargestDifference(out, exact);
  page.Claim(LessonText::kHeadIsExact, error < 1e-6, Format("%.1e", error));
  MOONLIT_ASSIGN_OR_RETURN(const Matrix fused, RunFused(machine, p.q, p.k, p.v, {.scale = scale, .causal = masked}));
  const double difference = LargestDifference(fused, out);
  page.Claim(LessonText::kHeadIsFused, difference < 1e-6, Format("%.1e", difference));
  return weights;
}

// Keys or values with every head of them `times` times.
Matrix Repeated(const Matrix& kv, size_t kv_heads, size_t times) {
  const size_t dim = kv.columns / kv_heads;
  Matrix wide = Filled(kv.rows, kv.columns * times, 0);
  for (size_t i = 0; i < kv.rows; ++i) {
    for (size_t c = 0; c < wide.columns; ++c) wide.at(i, c) = kv.at(i, c / dim / times * dim + c % dim);
  }
  return wide;
}

}  // namespace

Status LessonHead(LessonPage& page, LessonMachine& machine) {
  page.Say(LessonText::kHeadIntro);
  return CompareHead(page, machine, true).status();
}

Status ExerciseNoMask(LessonPage& page, LessonMachine& machine) {
  page.Say(LessonText::kNoMaskIntro);
  MOONLIT_ASSIGN_OR_RETURN(const Matrix open, CompareHead(page, machine, false));
  page.Say(LessonText::kNoMaskBeside);
  MOONLIT_ASSIGN_OR_RETURN(const Matrix masked, CompareHead(page, machine, true));
  bool everywhere = true;
  for (float weight : open.values) everywhere &= weight > 0;
  page.Claim(LessonText::kNoMaskEverywhere, everywhere);
  const size_t last = kVerseTokens - 1;
  double difference = 0;
  for (size_t j = 0; j < kVerseTokens; ++j)
    difference =
        std::max(difference, std::abs(static_cast<double>(open.at(last, j)) - static_cast<double>(masked.at(last, j))));
  page.Claim(LessonText::kNoMaskLastRow, difference == 0);
  return Status();
}

Status LessonKinds(LessonPage& page, LessonMachine& machine) {
  page.Say(LessonText::kKindsIntro);
  MOONLIT_ASSIGN_OR_RETURN(const Projections p, Project(machine, kVerseTokens, kHead, kHead, 20));
  const std::vector<float> w = RandomNormal(1, kHead, 24).values;
  const float scale = 1 / std::sqrt(static_cast<float>(kHead));
  struct Form {
    LessonText claim;
    float scale;
    const std::vector<float>* additive;
  };
  const Form forms[] = {{LessonText::kKindsAdditiveExact, 1, &w},
                        {LessonText::kKindsDotExact, 1, nullptr},
                        {LessonText::kKindsScaledExact, scale, nullptr}};
  std::vector<Matrix> all;
  for (const Form& form : forms) {
    const Kind kind{.pairs = {.keys = kVerseTokens}, .scale = form.scale, .additive = form.additive};
    MOONLIT_ASSIGN_OR_RETURN(all.emplace_back(), Attend(machine, p, kind, false));
  }
  page.ShowBeside(LessonText::kKindsHeader, all);
  for (size_t i = 0; i < all.size(); ++i) {
    const Form& form = forms[i];
    const Matrix exact =
        PlainAttention{
            .q = p.q, .k = p.k, .v = p.v, .scale = static_cast<double>(form.scale), .additive = form.additive}
            .Weights();
    const double error = LargestDifference(all[i], exact);
    page.Claim(form.claim, error < 1e-6 && AboveDiagonal(all[i]) == 0 && RowSumError(all[i]) < 1e-6,
               Format("%.1e", error));
  }
  return Status();
}

Status LessonSharedHeads(LessonPage& page, LessonMachine& machine) {
  page.Say(LessonText::kSharedIntro);
  constexpr size_t kHeads = 4, kDim = kModel / kHeads;
  const float scale = 1 / std::sqrt(static_cast<float>(kDim));
  const Matrix joined = RandomNormal(kModel, kModel, 40, 0.25);  // W of the output
  page.Header(LessonText::kSharedHeader);
  bool exact = true, fused_equal = true, copies = true, shapes = true;
  const struct {
    LessonText name;
    size_t kv_heads;
  } kinds[] = {{LessonText::kSharedMha, 4}, {LessonText::kSharedGqa, 2}, {LessonText::kSharedMqa, 1}};
  for (const auto& [name, kv_heads] : kinds) {
    MOONLIT_ASSIGN_OR_RETURN(Projections p, Project(machine, kVerseTokens, kModel, kv_heads * kDim, 30));
    Kind kind{.pairs = {.keys = kVerseTokens, .heads = kHeads, .kv_heads = kv_heads}, .scale = scale};
    MOONLIT_ASSIGN_OR_RETURN(const Matrix weights, Attend(machine, p, kind, false));
    MOONLIT_ASSIGN_OR_RETURN(const Matrix out, Attend(machine, p, kind, true));
    MOONLIT_ASSIGN_OR_RETURN(const Matrix model, Product(machine, out, joined));
    const PlainAttention plain{
        .q = p.q, .k = p.k, .v = p.v, .heads = kHeads, .kv_heads = kv_heads, .scale = static_cast<double>(scale)};
    const double error = LargestDifference(out, plain.Outputs());
    MOONLIT_ASSIGN_OR_RETURN(const Matrix fused,
                             RunFused(machine, p.q, p.k, p.v, {.heads = kHeads, .kv_heads = kv_heads, .scale = scale}));
    p.k = Repeated(p.k, kv_heads, kHeads / kv_heads);
    p.v = Repeated(p.v, kv_heads, kHeads / kv_heads);
    kind.pairs.kv_heads = kHeads;
    MOONLIT_ASSIGN_OR_RETURN(const Matrix copied, Attend(machine, p, kind, true));
    page.Line(name, Format("(1, %zu, %zu, %zu)  %13zu  %11.1e", kHeads, weights.rows, weights.columns / kHeads,
                           2 * kv_heads * kDim, error));
    exact &= error < 1e-6 && RowSumError(weights, kHeads) < 1e-6 && AboveDiagonal(weights, kHeads) == 0;
    fused_equal &= LargestDifference(fused, out) < 1e-6;
    copies &= LargestDifference(copied, out) == 0;
    shapes &= model.rows == kVerseTokens && model.columns == kModel;
  }
  page.Claim(LessonText::kSharedExact, exact && shapes);
  page.Claim(LessonText::kHeadIsFused, fused_equal);
  page.Claim(LessonText::kSharedCopies, copies);
  return Status();
}

}  // namespace moonlit::cli
