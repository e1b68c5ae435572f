// SPDX-License-Identifier: Apache-2.0
// Averages, and weights that a query chooses.
#include <cmath>

#include "tools/cli/lesson_sections.h"

namespace moonlit::cli {
namespace {

// What the five characters are about: the sky, and places. Made by hand.
Matrix VerseKeys() { return {kVerseTokens, 2, {0.1f, 0.9f, 0.0f, 1.0f, 0.9f, 0.1f, 1.0f, 0.0f, 0.8f, 0.2f}}; }

// softmax(times * q . k) of one query for all keys: [1, tokens].
Result<Matrix> WeightsOf(LessonMachine& machine, float sky, float place, float times, bool softmax) {
  LessonGraph g(machine, kVerseTokens);
  Matrix query = Filled(kVerseTokens, 2, sky);
  for (size_t i = 0; i < kVerseTokens; ++i) query.at(i, 1) = place;
  ValueId scores = g.ops.PairScores(g.Input("q", query), g.Input("k", VerseKeys()), {.keys = kVerseTokens});
  scores = g.ops.Scale(scores, times);
  MOONLIT_ASSIGN_OR_RETURN(const Matrix all, g.Run(softmax ? g.ops.Softmax(scores) : scores, kVerseTokens));
  Matrix last = Filled(1, kVerseTokens, 0);
  for (size_t j = 0; j < kVerseTokens; ++j) last.at(0, j) = all.at(kVerseTokens - 1, j);
  return last;
}

}  // namespace

Status LessonAverage(LessonPage& page, LessonMachine& machine) {
  page.Say(LessonText::kAverageIntro);
  const Matrix x = RandomNormal(kVerseTokens, 4, 1);
  Matrix average = Filled(kVerseTokens, kVerseTokens, 0);
  for (size_t i = 0; i < kVerseTokens; ++i) {
    for (size_t j = 0; j <= i; ++j) average.at(i, j) = 1 / static_cast<float>(i + 1);
  }
  LessonGraph product(machine, kVerseTokens);
  const ValueId out = product.ops.WeightedSum(product.Input("weights", average), product.Input("x", x), {kVerseTokens});
  MOONLIT_ASSIGN_OR_RETURN(const Matrix means, product.Run(out, kVerseTokens));
  page.Show(LessonText::kAverageTable, average);
  page.Show(LessonText::kAverageInputs, x);
  page.Show(LessonText::kAverageOutputs, means);
  double error = 0;
  for (size_t i = 0; i < kVerseTokens; ++i) {
    for (size_t c = 0; c < x.columns; ++c) {
      double sum = 0;
      for (size_t j = 0; j <= i; ++j) sum += static_cast<double>(x.at(j, c));
      error = std::max(error, std::abs(sum / static_cast<double>(i + 1) - static_cast<double>(means.at(i, c))));
    }
  }
  page.Claim(LessonText::kAverageIsMean, error < 1e-6, Format("%.1e", error));
  page.Claim(LessonText::kRowsSumToOne, RowSumError(average) < 1e-6);

  LessonGraph equal(machine, kVerseTokens);
  const ValueId scores = equal.Input("zeros", Filled(kVerseTokens, kVerseTokens, 0));
  const ValueId masked = equal.ops.AddPositions(scores, equal.Table("mask", MaskTable(kVerseTokens, 1, &Causal)));
  MOONLIT_ASSIGN_OR_RETURN(const Matrix same, equal.Run(equal.ops.Softmax(masked), kVerseTokens));
  const double difference = LargestDifference(same, average);
  page.Claim(LessonText::kAverageIsSoftmax, difference < 1e-6, Format("%.1e", difference));
  return Status();
}

Status LessonScores(LessonPage& page, LessonMachine& machine) {
  page.Say(LessonText::kScoresIntro);
  page.Show(LessonText::kScoresKeys, VerseKeys());
  MOONLIT_ASSIGN_OR_RETURN(const Matrix scores, WeightsOf(machine, 1, 0, 1, false));
  MOONLIT_ASSIGN_OR_RETURN(const Matrix weights, WeightsOf(machine, 1, 0, 1, true));
  MOONLIT_ASSIGN_OR_RETURN(const Matrix sharp, WeightsOf(machine, 1, 0, 5, true));
  page.Line(LessonText::kScoresDots, RowText(scores, 0));
  page.Line(LessonText::kScoresWeights, RowText(weights, 0));
  page.Line(LessonText::kScoresSharp, RowText(sharp, 0));
  page.Claim(LessonText::kScoresFigures, RowText(weights, 0) == " 0.12  0.11  0.26  0.29  0.23");
  page.Claim(LessonText::kScoresSharpFigures, RowText(sharp, 0) == " 0.01  0.00  0.30  0.50  0.18");
  page.Claim(LessonText::kRowsSumToOne, RowSumError(weights) < 1e-6 && RowSumError(sharp) < 1e-6);
  page.Say(LessonText::kScoresValues);
  return Status();
}

Status ExerciseQuery(LessonPage& page, LessonMachine& machine) {
  page.Say(LessonText::kQueryIntro);
  MOONLIT_ASSIGN_OR_RETURN(const Matrix sky, WeightsOf(machine, 1, 0, 1, true));
  MOONLIT_ASSIGN_OR_RETURN(const Matrix place, WeightsOf(machine, 0, 1, 1, true));
  MOONLIT_ASSIGN_OR_RETURN(const Matrix sharp, WeightsOf(machine, 0, 1, 5, true));
  page.Line(LessonText::kQuerySky, RowText(sky, 0));
  page.Line(LessonText::kQueryPlace, RowText(place, 0));
  page.Line(LessonText::kScoresSharp, RowText(sharp, 0));
  // exp(0.9), exp(1), exp(0.1), exp(0), exp(0.2), divided by their sum.
  const double scores[] = {0.9, 1.0, 0.1, 0.0, 0.2};
  double sum = 0, error = 0;
  for (double score : scores) sum += std::exp(score);
  for (size_t j = 0; j < kVerseTokens; ++j)
    error = std::max(error, std::abs(static_cast<double>(place.at(0, j)) - std::exp(scores[j]) / sum));
  page.Claim(LessonText::kQueryIsFormula, error < 1e-6, Format("%.1e", error));
  const bool first_two = place.at(0, 1) > place.at(0, 0) && place.at(0, 0) > place.at(0, 4);
  page.Claim(LessonText::kQueryFlips, first_two && place.at(0, 3) < place.at(0, 2) && sky.at(0, 3) > sky.at(0, 0));
  return Status();
}

}  // namespace moonlit::cli
