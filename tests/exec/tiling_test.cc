// SPDX-License-Identifier: Apache-2.0
// Tasks of a product: together they are the product, once, and neighbours share weights.
#include "runtime/exec/tiling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace moonlit {
namespace {

TilingInput RandomInput(std::mt19937& random) {
  const auto up_to = [&](size_t most) { return std::uniform_int_distribution<size_t>(1, most)(random); };
  TilingInput in{};
  in.rows = up_to(700);
  in.k = 32 * up_to(300);
  in.bytes_per_row = up_to(2) == 1 ? in.k : 4 * in.k;
  in.unit_outputs = 16 * up_to(4);
  in.unit_bytes = in.unit_outputs * in.k / 2;
  in.units = up_to(600);
  in.threads = up_to(8);
  if (up_to(2) == 1) in.max_task_floats = size_t{32} << 10;
  if (up_to(2) == 1) in.most_rows = kRowUnit;
  if (up_to(4) == 1) in.row_unit = 7;
  if (in.most_rows < in.row_unit) in.most_rows = in.row_unit;
  return in;
}

TEST(Tiling, TasksCoverEachRowAndUnitOnce) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const TilingInput in = RandomInput(random);
    const Tiling t = ChooseTiling(in);
    std::vector<int> done(in.rows * in.units);
    for (size_t task = 0; task < t.tasks(); ++task) {
      const size_t row_end = std::min(in.rows, t.first_row(task) + t.rows_per_block);
      const size_t unit_end = std::min(in.units, t.first_unit(task) + t.units_per_task);
      for (size_t r = t.first_row(task); r < row_end; ++r) {
        for (size_t u = t.first_unit(task); u < unit_end; ++u) ++done[r * in.units + u];
      }
    }
    ASSERT_TRUE(std::all_of(done.begin(), done.end(), [](int times) { return times == 1; })) << "input " << i;
  }
}

TEST(Tiling, TasksStayWithinTheirLimits) {
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    const TilingInput in = RandomInput(random);
    const Tiling t = ChooseTiling(in);
    ASSERT_LE(t.rows_per_block, std::max(in.most_rows, in.row_unit)) << i;
    const size_t outputs = t.units_per_task * in.unit_outputs, rows = std::min(t.rows_per_block, in.rows);
    if (t.units_per_task > 1) {
      ASSERT_LE(rows * outputs * in.k, in.task_macs) << i;
    }
    if (in.max_task_floats != 0) {
      ASSERT_LE(rows * outputs, in.max_task_floats) << i;
    }
  }
}

// So that weights come from memory once, not once for every block of rows.
TEST(Tiling, NeighboursShareWeights) {
  TilingInput in{};
  in.rows = 512;
  in.k = 2048;
  in.bytes_per_row = 4 * in.k;
  in.unit_outputs = 16;
  in.unit_bytes = 2 * in.unit_outputs * in.k;
  in.units = 128;
  in.threads = 2;
  in.most_rows = 16;
  const Tiling t = ChooseTiling(in);
  ASSERT_EQ(t.row_blocks, 32u);
  ASSERT_GT(t.runs, 1u);
  for (size_t task = 0; task + 1 < t.tasks(); ++task) {
    const bool last_rows = t.first_row(task) + t.rows_per_block >= in.rows;
    EXPECT_EQ(t.first_unit(task + 1) != t.first_unit(task), last_rows) << task;
  }
}

TEST(Tiling, NothingToDoIsNoTask) { EXPECT_EQ(ChooseTiling({}).tasks(), 0u); }

}  // namespace
}  // namespace moonlit
