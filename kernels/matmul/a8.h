// SPDX-License-Identifier: Apache-2.0
// A8: the one format of activations that enter an integer product. A row of K values is cut into groups of 32 (the last
// may be shorter and is padded with zeros):
//
//   scale         = max|x| / 127                                                  f32, 0 for a group of zeros
//   q[i]          = round to nearest, ties to even, of x[i] * (127 / max|x|)      int8 in [-127, 127]
//   minus_sum[h]  = -(sum of q over the h-th half, 16 values)                     int32, magnitude <= 2032
//
// A group whose maximum is below 2^-119 counts as zeros, so that the scale is a normal number and 127 / max|x| finite.
// A group with an inf or a NaN gets scale NaN and q 0, so its outputs are NaN instead of plausible numbers.
// One scale per 32 and not per 256: beside outlier channels a coarse scale costs too much (docs/design.md).
//
// Where eight bits are too few (docs/design.md tells where) a row has two terms, and its product is the sum of theirs: the row
// itself, and as a row of its own what rounding it lost, x[i] - scale * q[i], computed in f32 with each operation rounded. Of a
// group's maximum the second term's rounding loses at most 2^-16. Where the first term's scale is NaN, the second's is; and where
// the maximum is the largest float, since scale * q is then infinite.
//
// In memory rows lie in blocks of R = 1, 2, 4, 8 or 16, and the groups of a block one after the other:
//
//   block = units, K ascending        unit = q [R][32] | scale [R] | minus_sum [2][R]        44 R bytes
//
// A product walks all rows of a block through K together; so it reads one stream, and from one pointer every row is at a
// constant distance. The sums are negative and 32 bits wide because that is what products start with: a weight that carries
// an offset of 2^n too much is put right by minus_sum << n, and a minimum is a factor of it.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit {

inline constexpr size_t kA8Group = 32;
inline constexpr size_t kA8MostBlockRows = 16;
inline constexpr float kA8Smallest = 0x1p-119f;

// Rows of quantized activations; does not own. Disjoint rows, and disjoint groups of a row, may be written by any threads.
// Row and group numbers below are counted from first_row and first_group.
struct A8View {
  uint8_t* blocks;  // 64-byte aligned
  size_t first_row;
  size_t first_group;
  size_t block_rows;  // R
  size_t block_bytes;
};

static inline constexpr size_t A8UnitBytes(size_t block_rows) { return block_rows * (kA8Group + 3 * sizeof(int32_t)); }

static inline uint8_t* A8Unit(const A8View& a8, size_t row, size_t group) {
  return a8.blocks + (a8.first_row + row) / a8.block_rows * a8.block_bytes +
         (a8.first_group + group) * A8UnitBytes(a8.block_rows);
}
static inline size_t A8RowInBlock(const A8View& a8, size_t row) { return (a8.first_row + row) % a8.block_rows; }

// The 32 values of a row's group; its scale; the negative sum of its half 0 or 1.
static inline int8_t* A8Values(const A8View& a8, size_t row, size_t group) {
  return reinterpret_cast<int8_t*>(A8Unit(a8, row, group)) + kA8Group * A8RowInBlock(a8, row);
}
static inline float* A8Scale(const A8View& a8, size_t row, size_t group) {
  return reinterpret_cast<float*>(A8Unit(a8, row, group) + kA8Group * a8.block_rows) + A8RowInBlock(a8, row);
}
static inline int32_t* A8MinusSum(const A8View& a8, size_t row, size_t group, size_t half) {
  const size_t before = (kA8Group + sizeof(float)) * a8.block_rows;
  return reinterpret_cast<int32_t*>(A8Unit(a8, row, group) + before) + half * a8.block_rows + A8RowInBlock(a8, row);
}

// The same memory, counted from a later row and group.
static inline A8View A8From(const A8View& a8, size_t row, size_t group) {
  return {a8.blocks, a8.first_row + row, a8.first_group + group, a8.block_rows, a8.block_bytes};
}

// Bytes that hold any number of rows up to `rows`, of k values each.
size_t A8Bytes(size_t rows, size_t k);
// Lays rows out in 64-byte aligned memory of the caller: in the smallest blocks that take all of them, at most 16. Contents are
// not moved: a view is made anew where the number of rows changes, before they are written.
A8View MakeA8View(void* memory, size_t rows, size_t k);

}  // namespace moonlit
