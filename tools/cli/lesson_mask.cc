// SPDX-License-Identifier: Apache-2.0
// The causal mask, two ways to get it wrong, and why scores are divided by the root of the dimension.
#include <cmath>

#include "kernels/activation/activation.h"
#include "tools/cli/lesson_sections.h"

namespace moonlit::cli {
namespace {

// softmax(q . k / sqrt(dim) + mask) of one head; no mask if there is none.
Result<Matrix> MaskedWeights(LessonMachine& machine, const Matrix& q, const Matrix& k, const Matrix* mask) {
  LessonGraph g(machine, q.rows);
  ValueId scores = g.ops.PairScores(g.Input("q", q), g.Input("k", k), {.keys = q.rows});
  scores = g.ops.Scale(scores, 1 / std::sqrt(static_cast<float>(q.columns)));
  if (mask != nullptr) scores = g.ops.AddPositions(scores, g.Table("mask", *mask));
  return g.Run(g.ops.Softmax(scores), q.rows);
}

// The mask as zeros and ones, multiplied in after the softmax.
Matrix MaskedTooLate(Variant variant, const Matrix& weights) {
  Matrix late = weights;
  for (size_t i = 0; i < weights.rows; ++i) {
    for (size_t j = 0; j < weights.columns; ++j) late.at(i, j) = Causal(i, j) ? 1 : 0;
  }
  const size_t n = weights.values.size();
  GetActivationTable(variant).mul(weights.values.data(), late.values.data(), late.values.data(), n);
  return late;
}

Status ShowFaults(LessonPage& page, LessonMachine& machine, const Matrix& q, const Matrix& k) {
  page.Say(LessonText::kFaultsIntro);
  MOONLIT_ASSIGN_OR_RETURN(const Matrix open, MaskedWeights(machine, q, k, nullptr));
  page.Show(LessonText::kFaultOpen, open);
  page.Claim(LessonText::kFaultOpenLeaks, AboveDiagonal(open) > 0.01, Format("%.2f", AboveDiagonal(open)));
  const Matrix late = MaskedTooLate(machine.variant, open);
  page.Show(LessonText::kFaultLate, late);
  page.Claim(LessonText::kFaultLateSums, RowSumError(late) > 0.1, Format("%.2f", RowSumError(late)));
  const Matrix upside_down = MaskTable(q.rows, 1, [](size_t i, size_t j) { return j >= i; });
  MOONLIT_ASSIGN_OR_RETURN(const Matrix future, MaskedWeights(machine, q, k, &upside_down));
  page.Show(LessonText::kFaultFlipped, future);
  bool past = false;
  for (size_t i = 0; i < q.rows; ++i) {
    for (size_t j = 0; j < i; ++j) past |= future.at(i, j) != 0;
  }
  page.Claim(LessonText::kFaultFlippedSeesFuture, !past && AboveDiagonal(future) > 0.01 && RowSumError(future) < 1e-6);
  return Status();
}

}  // namespace

Status LessonMask(LessonPage& page, LessonMachine& machine) {
  page.Say(LessonText::kMaskIntro);
  const Matrix q = RandomNormal(kVerseTokens, 8, 2), k = RandomNormal(kVerseTokens, 8, 3);
  const Matrix mask = MaskTable(kVerseTokens, 1, &Causal);
  MOONLIT_ASSIGN_OR_RETURN(const Matrix weights, MaskedWeights(machine, q, k, &mask));
  page.Show(LessonText::kMaskWeights, weights);
  page.Claim(LessonText::kNothingAbove, AboveDiagonal(weights) == 0);
  page.Claim(LessonText::kRowsSumToOne, RowSumError(weights) < 1e-6, Format("%.1e", RowSumError(weights)));
  const Matrix exact = PlainAttention{.q = q, .k = k, .v = k, .scale = 1 / std::sqrt(8.0)}.Weights();
  const double difference = LargestDifference(weights, exact);
  page.Claim(LessonText::kWeightsAreExact, difference < 1e-6, Format("%.1e", difference));

  constexpr size_t kFour = 4;
  page.Say(LessonText::kFourIntro);
  const Matrix four = MaskTable(kFour, 1, &Causal);
  page.Show(LessonText::kFourMask, four);
  const Matrix q4 = RandomNormal(kFour, 8, 4), k4 = RandomNormal(kFour, 8, 5);
  MOONLIT_ASSIGN_OR_RETURN(const Matrix row, MaskedWeights(machine, q4, k4, &four));
  page.Show(LessonText::kMaskWeights, row);
  const bool two = row.at(1, 0) > 0 && row.at(1, 1) > 0 && row.at(1, 2) == 0 && row.at(1, 3) == 0;
  page.Claim(LessonText::kFourSecondRow, two && std::abs(row.at(1, 0) + row.at(1, 1) - 1) < 1e-6f, RowText(row, 1));
  return ShowFaults(page, machine, q, k);
}

Status LessonScale(LessonPage& page, LessonMachine& machine) {
  page.Say(LessonText::kScaleIntro);
  constexpr size_t kTexts = 128, kRows = kTexts * kVerseTokens, kSizes[] = {16, 64, 256, 1024};
  page.Header(LessonText::kScaleHeader);
  bool near_root = true, rises = true, flat = true;
  double before = 0;
  for (size_t d : kSizes) {
    const Matrix q = RandomNormal(kRows, d, 6), k = RandomNormal(kRows, d, 7);
    const double root = std::sqrt(static_cast<double>(d));
    double squares = 0, sum = 0, largest[2] = {};
    for (int form = 0; form < 3; ++form) {  // scores, weights unscaled, weights scaled
      LessonGraph g(machine, kRows);
      ValueId value = g.ops.PairScores(g.Input("q", q), g.Input("k", k), {.keys = kVerseTokens});
      if (form == 2) value = g.ops.Scale(value, static_cast<float>(1 / root));
      if (form != 0) value = g.ops.Softmax(value);
      MOONLIT_ASSIGN_OR_RETURN(const Matrix rows, g.Run(value, kRows, kVerseTokens));
      for (size_t i = 0; i < kRows; ++i) {
        double most = 0;
        for (size_t j = 0; j < kVerseTokens; ++j) {
          const double x = static_cast<double>(rows.at(i, j));
          most = std::max(most, x);
          if (form == 0) squares += x * x, sum += x;
        }
        if (form != 0) largest[form - 1] += most / kRows;
      }
    }
    constexpr double kCount = static_cast<double>(kRows * kVerseTokens);
    const double deviation = std::sqrt(squares / kCount - sum / kCount * (sum / kCount));
    page.Numbers(Format("%6zu  %11.2f  %8.2f  %12.2f  %14.2f", d, deviation, root, largest[0], largest[1]));
    near_root &= std::abs(deviation / root - 1) < 0.05;
    rises &= largest[0] > before && largest[0] > 0.75;
    flat &= largest[1] > 0.35 && largest[1] < 0.6;
    before = largest[0];
  }
  page.Claim(LessonText::kScaleIsRoot, near_root);
  page.Claim(LessonText::kScaleRises, rises && before > 0.9);
  page.Claim(LessonText::kScaleStays, flat);
  page.Say(LessonText::kScaleWhy);
  return Status();
}

}  // namespace moonlit::cli
