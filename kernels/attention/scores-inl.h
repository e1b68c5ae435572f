// SPDX-License-Identifier: Apache-2.0
// q . k of a block of rows and a tile of keys, for float and bf16 arithmetic. Lanes are keys, so there is no horizontal
// sum: one accumulator per score, head dimension ascending, whatever the number of rows beside it.
#pragma once

#include "kernels/attention/cache_format-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// Queries as the formats broadcast them. Rows beyond args.rows are zeros.
template <size_t kElements>
void PackFloatQueries(const AttentionArgs& args, size_t lanes, Workspace& work) {
  const size_t key_dim = args.layout->key_dim;
  work.q_block = lanes * kRowBlock * kElements;
  const size_t rows = RoundUp(args.rows, kRowBlock);
  for (size_t r = 0; r < rows; ++r) {
    float* q = reinterpret_cast<float*>(work.q) + r / kRowBlock * work.q_block + r % kRowBlock * kElements;
    for (size_t i = 0; i < lanes * kElements; ++i) {
      const bool inside = r < args.rows && i < key_dim;
      q[i / kElements * kRowBlock * kElements + i % kElements] = inside ? args.q[r][i] : 0.0f;
    }
  }
}

// Rounded, a row in memory is the row of pairs that a lane's words are.
void PackBF16Queries(const AttentionArgs& args, size_t lanes, Workspace& work) {
  const size_t key_dim = args.layout->key_dim;
  work.q_block = lanes * kRowBlock;
  const size_t rows = RoundUp(args.rows, kRowBlock);
  HWY_ALIGN uint16_t row[kMaxHeadDim + kLanes];
  for (size_t r = 0; r < rows; ++r) {
    memset(row, 0, 2 * lanes * sizeof(uint16_t));
    for (size_t i = 0; r < args.rows && i < key_dim; i += kLanes) {
      const size_t left = key_dim - i;
      StoreAsBF16(left < kLanes ? hn::LoadN(DF32(), args.q[r] + i, left) : hn::LoadU(DF32(), args.q[r] + i), row + i);
    }
    uint32_t* q = work.q + r / kRowBlock * work.q_block + r % kRowBlock;
    for (size_t i = 0; i < lanes; ++i) memcpy(q + i * kRowBlock, row + 2 * i, sizeof(uint32_t));
  }
}

template <class Format>
void PackQueries(Format, const AttentionArgs& args, size_t lanes, Workspace& work) {
  if constexpr (Format::kWords == Format::kElements) {
    PackFloatQueries<Format::kElements>(args, lanes, work);
  } else {
    PackBF16Queries(args, lanes, work);
  }
}

// `keys`: the tile's K as lanes, [kTile / 16][lanes][16]. `ahead`: the next tile's, or null.
template <class Format, size_t kRows, size_t kVecs>
HWY_INLINE void ScoreVecs(const uint8_t* keys, const uint8_t* ahead, size_t lanes, size_t first_vec, const uint32_t* q,
                          float* scores) {
  VF32 sum[kRows][kVecs];
  size_t column[kVecs];
  Unroll<kVecs>([&](auto v) MOONLIT_INLINE_LAMBDA {
    const size_t token = (first_vec + v) * kLanes;
    column[v] = (token / kPageGroup * lanes * kPageGroup + token % kPageGroup) * 4;
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA { sum[r][v] = hn::Zero(DF32()); });
  });
  for (size_t i = 0; i < lanes; ++i) {
    typename Format::Operand k[kVecs];
    Unroll<kVecs>([&](auto v) MOONLIT_INLINE_LAMBDA { k[v] = Format::Load(keys + column[v] + i * kPageGroup * 4); });
    if (ahead != nullptr) {
      Unroll<kVecs>([&](auto v)
                        MOONLIT_INLINE_LAMBDA { __builtin_prefetch(ahead + column[v] + i * kPageGroup * 4, 0, 2); });
    }
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
      const typename Format::Words words = Format::Broadcast(q + (i * kRowBlock + r) * Format::kWords);
      Unroll<kVecs>([&](auto v) MOONLIT_INLINE_LAMBDA { sum[r][v] = Format::Add(sum[r][v], k[v], words); });
    });
  }
  Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
    Unroll<kVecs>([&](auto v) MOONLIT_INLINE_LAMBDA {
      hn::Store(sum[r][v], DF32(), scores + r * kTile + (first_vec + v) * kLanes);
    });
  });
}

template <class Format>
void ScoreTile(const AttentionArgs& args, const TileView& view, const uint8_t* keys, const uint8_t* ahead, size_t lanes,
               const Workspace& work) {
  for (size_t row = 0; row < args.rows; row += kRowBlock) {
    const size_t rows = args.rows - row < kRowBlock ? args.rows - row : kRowBlock;
    size_t low = kTile, high = 0;
    for (size_t r = row; r < row + rows; ++r) {
      if (!Sees(view, r)) continue;
      low = view.low[r] < low ? view.low[r] : low;
      high = view.high[r] > high ? view.high[r] : high;
    }
    constexpr size_t kStep = kScoreVecs * kLanes;
    const uint32_t* q = work.q + row / kRowBlock * work.q_block;
    WithRows(rows, [&](auto count) MOONLIT_INLINE_LAMBDA {
      for (size_t token = low / kStep * kStep; token < high; token += kStep) {
        ScoreVecs<Format, decltype(count)::value, kScoreVecs>(keys, row == 0 ? ahead : nullptr, lanes, token / kLanes,
                                                              q, work.scores + row * kTile);
      }
    });
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
