// SPDX-License-Identifier: Apache-2.0
// What attention costs: the table grows with the square of the text, and so does the time, with a table or without.
#include <cmath>

#include "runtime/base/clock.h"
#include "tools/cli/lesson_sections.h"

namespace moonlit::cli {
namespace {

constexpr size_t kLengths[] = {1000, 2000, 4000}, kDim = 64;

struct Times {
  double table, fused;  // seconds
  double difference;    // of the last row
  uint64_t arena_bytes;
};

// One head without a mask, once by graph ops and once by the fused kernel. Graphs are built before the clock starts, and run once
// so that their memory is there.
Result<Times> Measure(LessonMachine& machine, size_t tokens) {
  const Matrix q = RandomNormal(tokens, kDim, 70), k = RandomNormal(tokens, kDim, 71);
  const Matrix v = RandomNormal(tokens, kDim, 72);
  const float scale = 1 / std::sqrt(static_cast<float>(kDim));
  LessonGraph g(machine, tokens);
  const ValueId scores = g.ops.PairScores(g.ops.Scale(g.Input("q", q), scale), g.Input("k", k), {.keys = tokens});
  MOONLIT_RETURN_IF_ERROR(
      g.Finish(g.ops.WeightedSum(g.ops.Softmax(scores), g.Input("v", v), {.keys = tokens}), tokens));
  const FusedCase fused{.scale = scale, .causal = false};
  Times times{};
  Matrix by_table, by_tiles;
  for (int round = 0; round < 2; ++round) {
    const double start = MonotonicSeconds();
    MOONLIT_ASSIGN_OR_RETURN(by_table, g.RunForLast());
    const double middle = MonotonicSeconds();
    MOONLIT_ASSIGN_OR_RETURN(by_tiles, RunFused(machine, q, k, v, fused));
    times.table = middle - start;
    times.fused = MonotonicSeconds() - middle;
  }
  const size_t last = (tokens - 1) * kDim;
  const auto row = [&](const Matrix& m) {
    const auto begin = m.values.begin() + static_cast<std::ptrdiff_t>(last);
    return Matrix{1, kDim, std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(kDim))};
  };
  times.arena_bytes = g.arena_bytes();
  times.difference = LargestDifference(row(by_table), row(by_tiles));
  return times;
}

Status Costs(LessonPage& page, LessonMachine& machine, bool growth) {
  page.Header(growth ? LessonText::kGrowthHeader : LessonText::kCostHeader);
  double difference = 0;
  bool holds = true;
  Times before{};
  for (size_t tokens : kLengths) {
    MOONLIT_ASSIGN_OR_RETURN(const Times times, Measure(machine, tokens));
    std::string line =
        Format("%6zu  %10.1f  %11.1f  %11.1f", tokens, static_cast<double>(tokens * tokens * sizeof(float)) / (1 << 20),
               times.table * 1e3, times.fused * 1e3);
    if (growth && before.table > 0)
      line += Format("  %9.1f  %9.1f", times.table / before.table, times.fused / before.fused);
    page.Numbers(line);
    difference = std::max(difference, times.difference);
    holds &= times.arena_bytes >= uint64_t{tokens} * tokens * 2 * sizeof(float);
    before = times;
  }
  page.Claim(LessonText::kCostEqual, difference < 2e-6, Format("%.1e", difference));
  page.Claim(LessonText::kCostHolds, holds);
  return Status();
}

}  // namespace

Status LessonCost(LessonPage& page, LessonMachine& machine) {
  page.Say(LessonText::kCostIntro);
  MOONLIT_RETURN_IF_ERROR(Costs(page, machine, false));
  page.Say(LessonText::kCostEnd);
  return Status();
}

Status ExerciseGrowth(LessonPage& page, LessonMachine& machine) {
  page.Say(LessonText::kGrowthIntro);
  return Costs(page, machine, true);
}

}  // namespace moonlit::cli
