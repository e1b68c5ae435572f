// SPDX-License-Identifier: Apache-2.0
// q . k of a block of rows and a tile of keys, for float and bf16 arithmetic. Lanes are keys, so there is no horizontal
// sum: one accumulator per score, head dimension ascending, whatever the number of rows beside it.
#pragma once

#include "kernels/attention/cache_format-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// Stores a vector of each row of a block so that elements of the same lane follow each other.
template <class V>
HWY_INLINE void StoreBlock(const V (&rows)[kRowBlock], uint32_t* out) {
  const hn::DFromV<V> d;
  hn::TFromD<decltype(d)>* words = reinterpret_cast<hn::TFromD<decltype(d)>*>(out);
  if constexpr (kRowBlock == 4) {
    hn::StoreInterleaved4(rows[0], rows[1], rows[2], rows[3], d, words);
  } else {
    hn::StoreU(rows[0], d, words);
  }
}

// Queries as the formats broadcast them: [row / 4][lane][row % 4][elements]. Rows beyond args.rows are zeros.
template <size_t kElements>
void PackQueriesOf(const AttentionArgs& args, size_t lanes, Workspace& work) {
  using DWord = hn::Repartition<hwy::If<kElements == 1, uint32_t, uint64_t>, DF32>;
  const DF32 df;
  const size_t key_dim = args.layout->key_dim;
  work.q_block = lanes * kRowBlock * kElements;
  for (size_t row = 0; row < args.rows; row += kRowBlock) {
    uint32_t* q = work.q + row / kRowBlock * work.q_block;
    for (size_t i = 0; i < lanes * kElements; i += kLanes) {
      const size_t left = i < key_dim ? key_dim - i : 0;
      hn::Vec<DWord> words[kRowBlock];
      for (size_t r = 0; r < kRowBlock; ++r) {
        const bool there = row + r < args.rows && left != 0;
        const VF32 x = !there          ? hn::Zero(df)
                       : left < kLanes ? hn::LoadN(df, args.q[row + r] + i, left)
                                       : hn::LoadU(df, args.q[row + r] + i);
        words[r] = hn::BitCast(DWord(), x);
      }
      StoreBlock(words, q + i * kRowBlock);
    }
  }
}

// Rounded, a row in memory is the row of pairs that a lane's words are.
HWY_INLINE void PackBF16Queries(const AttentionArgs& args, size_t lanes, Workspace& work) {
  const size_t key_dim = args.layout->key_dim;
  work.q_block = lanes * kRowBlock;
  HWY_ALIGN uint16_t rounded[kRowBlock][kMaxHeadDim + 2 * kLanes];
  for (size_t row = 0; row < args.rows; row += kRowBlock) {
    for (size_t r = 0; r < kRowBlock; ++r) {
      const bool there = row + r < args.rows;
      if (!there || key_dim % (2 * kLanes) != 0) memset(rounded[r], 0, (2 * lanes + 2 * kLanes) * sizeof(uint16_t));
      for (size_t i = 0; there && i < key_dim; i += kLanes) {
        const float* q = args.q[row + r] + i;
        const size_t left = key_dim - i;
        StoreAsBF16(left < kLanes ? hn::LoadN(DF32(), q, left) : hn::LoadU(DF32(), q), rounded[r] + i);
      }
    }
    uint32_t* q = work.q + row / kRowBlock * work.q_block;
    for (size_t i = 0; i < lanes; i += kLanes) {
      VU32 words[kRowBlock];
      for (size_t r = 0; r < kRowBlock; ++r)
        words[r] = hn::LoadU(DU32(), reinterpret_cast<const uint32_t*>(rounded[r] + 2 * i));
      StoreBlock(words, q + i * kRowBlock);
    }
  }
}

// `keys`: the tile's K as lanes, [kTile / 16][lanes][16]. `ahead`: lines to prefetch, or null.
template <class Format, size_t kRows, size_t kVecs>
HWY_INLINE void ScoreVecs(const uint8_t* keys, size_t lanes, size_t first_vec, const uint32_t* q,
                          LinesAhead* lines_ahead, float* scores) {
  const uint8_t* ahead = lines_ahead != nullptr ? TakeLines(lanes * kLinesOfStep<kVecs>, lines_ahead) : nullptr;
  const uintptr_t second = lines_ahead != nullptr ? lines_ahead->second : 0;
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
    ahead = PrefetchStep<kLinesOfStep<kVecs>>(ahead, second);
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
void ScoreTile(const AttentionArgs& args, const TileView& view, const uint8_t* keys, size_t lanes, Workspace& work) {
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
        LinesAhead* ahead = row == 0 ? &work.ahead : nullptr;
        ScoreVecs<Format, decltype(count)::value, kScoreVecs>(keys, lanes, token / kLanes, q, ahead,
                                                              work.scores + row * kTile);
      }
    });
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
