// SPDX-License-Identifier: Apache-2.0
// How a product is cut into tasks: blocks of rows times runs of weight tiles.
//
// A task's activations should stay in a core's L2 while weight tiles stream past, so a block has at most kRowBlockBytes of
// them. A task has enough tiles to be worth claiming, but is no more than task_macs multiply-adds: about 2 ms on an in-order Arm
// core at 4 GMAC/s. With one row a task is a read of kTaskBytes of weights or more. Tasks that follow each other have the same
// weights and other rows: what one has brought into a cache, the next one, or the other core's, finds there, and all weights
// come from memory once, however many blocks of rows there are. None of this changes a bit of the result.
#pragma once

#include <cstddef>

namespace moonlit {

struct Tiling {
  size_t rows_per_block;
  size_t row_blocks;
  size_t units_per_task;  // unit: a tile, or a pair of equal widths for gated products
  size_t runs;            // tasks a row block
  size_t tasks() const { return row_blocks * runs; }
  size_t first_row(size_t task) const { return task % row_blocks * rows_per_block; }
  size_t first_unit(size_t task) const { return task / row_blocks * units_per_task; }
};

inline constexpr size_t kRowUnit = 16;  // our own product kernels work on that many rows at once or fewer
inline constexpr size_t kMostBlockRows = 256;
inline constexpr size_t kTaskMacs = size_t{8} << 20;

struct TilingInput {
  size_t rows;
  size_t bytes_per_row;  // of the activations
  size_t k;
  size_t unit_outputs;
  size_t unit_bytes;  // weight bytes of a unit
  size_t units;
  size_t threads;
  size_t max_task_floats;      // rows * outputs that fit the scratch; 0: no limit
  size_t row_unit = kRowUnit;  // blocks of rows are multiples of it
  size_t most_rows = kMostBlockRows;
  size_t task_macs = kTaskMacs;
};

Tiling ChooseTiling(const TilingInput& input);

}  // namespace moonlit
