// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/tiling.h"

#include <algorithm>

#include "kernels/base/round.h"

namespace moonlit {
namespace {

constexpr size_t kRowBlockBytes = size_t{256} << 10;
constexpr size_t kTaskBytes = size_t{64} << 10;
constexpr size_t kTasksPerThread = 8;

}  // namespace

Tiling ChooseTiling(const TilingInput& in) {
  Tiling t{};
  if (in.rows == 0 || in.units == 0) return t;
  const size_t fit = kRowBlockBytes / std::max<size_t>(in.bytes_per_row, 1) / in.row_unit * in.row_unit;
  size_t most_rows = std::clamp(fit, in.row_unit, in.most_rows / in.row_unit * in.row_unit);
  if (in.max_task_floats != 0)
    most_rows = std::min(most_rows, std::max<size_t>(in.max_task_floats / in.unit_outputs, 1));
  t.row_blocks = CeilDiv(in.rows, most_rows);
  t.rows_per_block = std::min(CeilDiv(CeilDiv(in.rows, t.row_blocks), in.row_unit) * in.row_unit, most_rows);
  t.row_blocks = CeilDiv(in.rows, t.rows_per_block);
  const size_t rows = std::min(in.rows, t.rows_per_block);
  const size_t balanced = in.units * t.row_blocks / (in.threads * kTasksPerThread);
  const size_t worth_claiming = CeilDiv(kTaskBytes, std::max<size_t>(in.unit_bytes * rows, 1));
  size_t most_units = std::max<size_t>(in.task_macs / std::max<size_t>(rows * in.k * in.unit_outputs, 1), 1);
  if (in.max_task_floats != 0)
    most_units = std::min(most_units, std::max<size_t>(in.max_task_floats / (rows * in.unit_outputs), 1));
  t.units_per_task = std::clamp<size_t>(std::max(balanced, worth_claiming), 1, std::min(most_units, in.units));
  t.runs = CeilDiv(in.units, t.units_per_task);
  return t;
}

}  // namespace moonlit
