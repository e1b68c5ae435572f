// SPDX-License-Identifier: Apache-2.0
// out += p . V for a block of rows and a tile, for float and bf16 arithmetic. Lanes are value dims; one accumulator per
// output, keys ascending. Only keys that a row sees are added to it: an invisible slot may hold anything, NaN included.
#pragma once

#include "kernels/attention/cache_format-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// The rows of one call of the functions below: consecutive rows, all of which see something of the tile.
struct ValueRows {
  LinesAhead* ahead;  // lines to prefetch, or null
  const uint32_t* p;  // [rows] x p_stride words: probabilities of the tile's slots as the format broadcasts them
  size_t p_stride;
  float* out;  // [rows] x out_stride
  size_t out_stride;
};

// Steps are groups of Format::kElements slots; `values` is step 0 of the tile, a step has `dims` lanes.
template <class Format, size_t kRows, size_t kVecs>
HWY_INLINE void AddValueVecs(const uint8_t* values, size_t dims, size_t first, size_t last, size_t dim,
                             const ValueRows& rows) {
  const DF32 df;
  const uint32_t* p = rows.p;
  const size_t p_stride = rows.p_stride;
  float* out = rows.out + dim;
  const size_t out_stride = rows.out_stride;
  const uint8_t* ahead = rows.ahead != nullptr ? TakeLines((last - first) * kLinesOfStep<kVecs>, rows.ahead) : nullptr;
  const uintptr_t second = rows.ahead != nullptr ? rows.ahead->second : 0;
  VF32 sum[kRows][kVecs];
  Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
    Unroll<kVecs>([&](auto v) MOONLIT_INLINE_LAMBDA { sum[r][v] = hn::Load(df, out + r * out_stride + v * kLanes); });
  });
  for (size_t step = first; step < last; ++step) {
    typename Format::Operand value[kVecs];
    Unroll<kVecs>(
        [&](auto v) MOONLIT_INLINE_LAMBDA { value[v] = Format::Load(values + (step * dims + dim + v * kLanes) * 4); });
    ahead = PrefetchStep<kLinesOfStep<kVecs>>(ahead, second);
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
      const typename Format::Words words = Format::Broadcast(p + r * p_stride + step * Format::kWords);
      Unroll<kVecs>([&](auto v) MOONLIT_INLINE_LAMBDA { sum[r][v] = Format::Add(sum[r][v], value[v], words); });
    });
  }
  Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
    Unroll<kVecs>([&](auto v) MOONLIT_INLINE_LAMBDA { hn::Store(sum[r][v], df, out + r * out_stride + v * kLanes); });
  });
}

// Whole steps [first, last) of kRows rows.
template <class Format, size_t kRows>
HWY_INLINE void AddValueSteps(const uint8_t* values, size_t dims, size_t first, size_t last, const ValueRows& rows) {
  if (first >= last) return;
  size_t dim = 0;
  for (; dim + kMostVecs * kLanes <= dims; dim += kMostVecs * kLanes) {
    AddValueVecs<Format, kRows, kMostVecs>(values, dims, first, last, dim, rows);
  }
  for (; dim < dims; dim += kLanes) {
    AddValueVecs<Format, kRows, 1>(values, dims, first, last, dim, rows);
  }
}

// One slot of one row, where the row sees only part of a step.
template <class Format>
HWY_INLINE void AddValueSlot(const uint8_t* values, size_t dims, size_t slot, const ValueRows& row) {
  const DF32 df;
  const size_t step = slot / Format::kElements;
  for (size_t dim = 0; dim < dims; dim += kLanes) {
    const VF32 sum = hn::Load(df, row.out + dim);
    const VF32 more =
        Format::AddOne(sum, values + (step * dims + dim) * 4, row.p + step * Format::kWords, slot % Format::kElements);
    hn::Store(more, df, row.out + dim);
  }
}

// Slots [low, high) of one row.
template <class Format>
void AddValueRange(const uint8_t* values, size_t dims, size_t low, size_t high, const ValueRows& row) {
  static_assert(Format::kElements <= 2, "at most one slot is left at either end");
  if (low >= high) return;
  constexpr size_t g = Format::kElements;
  const bool head = low % g != 0;
  const bool tail = high % g != 0;
  if (head) AddValueSlot<Format>(values, dims, low, row);
  AddValueSteps<Format, 1>(values, dims, (low + g - 1) / g, high / g, row);
  if (tail && !(head && high / g == low / g)) AddValueSlot<Format>(values, dims, high - 1, row);
}

HWY_INLINE ValueRows RowsFrom(const ValueRows& rows, size_t r) {
  return {nullptr, rows.p + r * rows.p_stride, rows.p_stride, rows.out + r * rows.out_stride, rows.out_stride};
}

// `count` rows from `row`, all seeing something: what all see is added together, the rest row by row.
template <class Format>
void AddValueBlock(const TileView& view, size_t row, size_t count, const uint8_t* values, size_t dims,
                   const ValueRows& rows) {
  constexpr size_t g = Format::kElements;
  size_t low = 0, high = kTile;
  for (size_t r = row; r < row + count; ++r) {
    low = view.low[r] > low ? view.low[r] : low;
    high = view.high[r] < high ? view.high[r] : high;
  }
  low = RoundUp(low, g);
  high = high / g * g;
  if (low >= high) {
    for (size_t r = 0; r < count; ++r) {
      AddValueRange<Format>(values, dims, view.low[row + r], view.high[row + r], RowsFrom(rows, r));
    }
    return;
  }
  for (size_t r = 0; r < count; ++r) AddValueRange<Format>(values, dims, view.low[row + r], low, RowsFrom(rows, r));
  WithRows(count, [&](auto c) MOONLIT_INLINE_LAMBDA {
    AddValueSteps<Format, decltype(c)::value>(values, dims, low / g, high / g, rows);
  });
  for (size_t r = 0; r < count; ++r) AddValueRange<Format>(values, dims, high, view.high[row + r], RowsFrom(rows, r));
}

// Calls block(first_row, count) for runs of at most kRowBlock neighbouring rows that all see something of the tile.
template <class Block>
HWY_INLINE void ForVisibleRuns(const TileView& view, size_t rows, Block&& block) {
  size_t row = 0;
  while (row < rows) {
    size_t count = 0;
    while (count < kRowBlock && row + count < rows && Sees(view, row + count)) ++count;
    if (count != 0) block(row, count);
    row += count != 0 ? count : 1;
  }
}

template <class Format>
void AddValueTile(const AttentionArgs& args, const TileView& view, const uint8_t* values, size_t dims, Workspace& work,
                  float* triples) {
  const size_t p_stride = kTile / Format::kElements * Format::kWords;
  const size_t out_stride = AttentionTripleFloats(*args.layout);
  ForVisibleRuns(view, args.rows, [&](size_t row, size_t count) {
    const ValueRows rows = {row == 0 ? &work.ahead : nullptr,
                            static_cast<const uint32_t*>(Format::Probabilities(work)) + row * p_stride, p_stride,
                            triples + row * out_stride + 16, out_stride};
    AddValueBlock<Format>(view, row, count, values, dims, rows);
  });
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
