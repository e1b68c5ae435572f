// SPDX-License-Identifier: Apache-2.0
// The product of A8 activations with a packed tile, written once for every block format.
//
// A codec (matmul_<stem>.cc) tells what the words of a block mean:
//
//   kFormat, kBlock, kBytes        the format, values and bytes of a file block
//   kSmall, kBig                   its fields (layout-inl.h)
//   kChunks, kUnits                a block is kChunks times kUnits units of 32 k, K ascending; units are unrolled
//   kParts                         scales a unit: 1 (32 values) or 2 (16 values each)
//   kHasMin                        whether a second term Σa · add exists
//   kSigned, kBound                weights are signed bytes, or unsigned ones up to kBound
//   kOffset                        what unsigned weights carry too much; taken off by the activations' sums
//   Scales(small, v, scale, add)   all scales (and addends, = -minimum) of vector v of the block, as floats in lane order
//   Weights<unit>(small, big, chunk, v, w)   eight vectors of bytes: step s holds k = 4s .. 4s + 3 of the unit
//
// One body serves every number of rows, tile by tile. The weights of a unit are unpacked once, into eight registers, and used
// for all rows. With one row too: several tiles side by side would open as many streams of memory, and one stream that runs
// straight on was read a third faster (Zen 4: Q4_0 29 GB/s a core instead of 20 with four, Q4_K 27 instead of 14). An output has one float accumulator and meets its blocks in the same order in every shape, so the bits never depend on it.
#pragma once

#include "kernels/matmul/layout-inl.h"
#include "kernels/matmul/store-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// Most rows that one pass over a tile serves: accumulators, eight weight vectors and temporaries must fit the registers.
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
constexpr size_t kMaxRows = 16;
#elif HWY_ARCH_ARM_A64 && HWY_TARGET_IS_NEON
constexpr size_t kMaxRows = 8;
#elif MOONLIT_EMULATED
constexpr size_t kMaxRows = 2;
#else
constexpr size_t kMaxRows = 4;
#endif
// Rows whose dot products take turns.
constexpr size_t kMaxTurns = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3       ? 4
                             : HWY_ARCH_ARM_A64 || HWY_TARGET == HWY_AVX2 ? 2
                                                                          : 1;

// Emulated vectors are loops over arrays: expanding them for every row takes the compiler minutes and gains nothing.
#if MOONLIT_EMULATED
#define MOONLIT_INNER HWY_NOINLINE
#else
#define MOONLIT_INNER HWY_INLINE
#endif

template <size_t kRows>
struct RowSet {
  const int8_t* q[kRows];
  const float* scale[kRows];
  const int16_t* sums[kRows];
};

// Rows past the last are the last again: computed, never stored.
template <size_t kRows>
HWY_INLINE RowSet<kRows> SelectRows(const ProductArgs& args, size_t row, size_t valid) {
  RowSet<kRows> set;
  Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
    const size_t m = row + (r < valid ? r : valid - 1);
    set.q[r] = args.a8.q + m * args.a8.q_stride;
    set.scale[r] = args.a8.scale + m * args.a8.scale_stride;
    set.sums[r] = args.a8.sum16 + m * args.a8.sum_stride;
  });
  return set;
}

template <class Codec, size_t kFirst, size_t kSteps, size_t kRows>
HWY_INLINE void Dot(const int8_t* const (&a)[kRows], const VU8 (&w)[8], VI32 (&sums)[kRows]) {
#if MOONLIT_HAS_VPDPBUSD512 || (MOONLIT_HAS_VPDPBUSD256 && HWY_MAX_BYTES == 32)
  DotUnsigned<Codec::kSigned ? 255 : Codec::kBound, kFirst, kSteps>(a, w, sums);
#else
  if constexpr (Codec::kSigned) {
    VI8 s[8];
    Unroll<kSteps>([&](auto i) MOONLIT_INLINE_LAMBDA { s[kFirst + i] = hn::BitCast(DI8(), w[kFirst + i]); });
    DotSigned<kFirst, kSteps>(a, s, sums);
  } else {
    DotUnsigned<Codec::kBound, kFirst, kSteps>(a, w, sums);
  }
#endif
}

template <class Codec>
constexpr int OffsetOf() {
  return Codec::kSigned ? (kBiasSignedWeights ? 128 : 0) : Codec::kOffset;
}

// Rows [kRow, kRow + kCount) of one unit of 32 k and one vector of outputs; acc[r] belongs to row r.
template <class Codec, size_t kRow, size_t kCount, size_t kRows>
MOONLIT_INNER void AddUnit(const RowSet<kRows>& rows, size_t group, const VU8 (&w)[8], const VF32* scale,
                           const VF32* add, VF32* acc) {
  constexpr int kOffset = OffsetOf<Codec>();
  constexpr size_t kParts = Codec::kParts;
  const DF32 df;
  const int8_t* a[kCount];
  Unroll<kCount>([&](auto r) MOONLIT_INLINE_LAMBDA { a[r] = rows.q[kRow + r] + kA8Group * group; });
  Unroll<kParts>([&](auto part) MOONLIT_INLINE_LAMBDA {
    constexpr size_t p = decltype(part)::value;
    VI32 sums[kCount];
    Unroll<kCount>([&](auto r) MOONLIT_INLINE_LAMBDA {
      const int16_t* of_a = rows.sums[kRow + r] + 2 * group;
      if constexpr (kOffset == 0) {
        sums[r] = hn::Zero(DI32());
      } else if constexpr (kParts == 1) {
        sums[r] = SumOfTwoTimes<-kOffset>(of_a);
      } else {
        sums[r] = OneOfTwoTimes<-kOffset, p>(of_a);
      }
    });
    Dot<Codec, 8 / kParts * p, 8 / kParts>(a, w, sums);
    Unroll<kCount>([&](auto r) MOONLIT_INLINE_LAMBDA {
      const VF32 as = hn::Set(df, rows.scale[kRow + r][group]);
      VF32& out = acc[kRow + r];
      out = hn::MulAdd(hn::ConvertTo(df, sums[r]), hn::Mul(as, scale[p]), out);
      if constexpr (Codec::kHasMin) {
        const int16_t* of_a = rows.sums[kRow + r] + 2 * group;
        VI32 sum;
        if constexpr (kParts == 1) {
          sum = SumOfTwo(of_a);
        } else {
          sum = OneOfTwoTimes<1, p>(of_a);
        }
        out = hn::MulAdd(hn::ConvertTo(df, sum), hn::Mul(as, add[p]), out);
      }
    });
  });
}

// Asks for the lines of one unit that lie kAheadBytes further in this stream, into the second-level cache: asked into the
// first, they keep its few miss buffers busy. Blocks whose quants lie in two fields are not read in the order of memory, so the
// hardware's own prefetcher does little for them (Zen 4, Q6_K with one row: 7 GB/s without, 10 at 2 KiB, 21 at 8 KiB); for
// the others a short distance is enough, and a long one costs a third.
template <class Codec, size_t kUnitsOfBlock>
HWY_INLINE void PrefetchAhead(const uint8_t* block, size_t unit) {
  constexpr bool kInOrder = sizeof(Codec::kBig) == sizeof(Field) || Codec::kBlock == 32;
  constexpr size_t kAheadBytes = kInOrder ? 2048 : 8192;
  constexpr size_t kLines = (Codec::kBytes * kTile + 64 * kUnitsOfBlock - 1) / (64 * kUnitsOfBlock);
  const uint8_t* ahead = block + kAheadBytes + unit * kLines * 64;
  Unroll<kLines>([&](auto i) MOONLIT_INLINE_LAMBDA { __builtin_prefetch(ahead + 64 * i, 0, 2); });
}

template <class Codec, size_t kUnit>
MOONLIT_INNER void LoadWeights(const uint8_t* small, const uint8_t* big, size_t chunk, size_t v, VU8 (&w)[8]) {
  Codec::template Weights<kUnit>(small, big, chunk, v, w);
}

template <class Codec, size_t kRows>
HWY_INLINE void AddBlock(const uint8_t* tile, size_t block, const RowSet<kRows>& rows, VF32 (&acc)[kVectors * kRows]) {
  using L = Layout<Codec>;
  constexpr size_t kScales = Codec::kChunks * Codec::kUnits * Codec::kParts;
  constexpr size_t kTurns = kRows < kMaxTurns ? kRows : kMaxTurns;
  const uint8_t* small = tile + L::Small(block);
  const uint8_t* big = tile + L::Big(block);
  Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA {
    VF32 scale[kScales];
    VF32 add[kScales];
    Codec::Scales(small, v, scale, add);
    for (size_t chunk = 0; chunk < Codec::kChunks; ++chunk) {
      Unroll<Codec::kUnits>([&](auto u) MOONLIT_INLINE_LAMBDA {
        VU8 w[8];
        LoadWeights<Codec, decltype(u)::value>(small, big, chunk, v, w);
        const size_t unit = chunk * Codec::kUnits + u;
        const size_t group = block * (Codec::kBlock / kA8Group) + unit;
        const size_t at = Codec::kChunks == 1 ? u * Codec::kParts : unit * Codec::kParts;
        PrefetchAhead<Codec, Codec::kChunks * Codec::kUnits>(big, unit);
        VF32* out = acc + v * kRows;
        Unroll<kRows / kTurns>([&](auto r) MOONLIT_INLINE_LAMBDA {
          AddUnit<Codec, decltype(r)::value * kTurns, kTurns>(rows, group, w, scale + at, add + at, out);
        });
      });
    }
  });
}

// A part of K for some rows of some tiles. The accumulators of earlier parts come from `sums` and go back there; the last part
// writes the outputs instead. Kept in memory as floats they lose nothing.
struct Panel {
  size_t block_begin, block_end;
  size_t blocks;  // of the whole row
  float* sums;    // for the panel's first row and tile
  size_t stride;  // from row to row, in floats; tiles lie kTile apart
};

// Rows [row, row + valid), valid <= kRows, of one tile.
template <class Codec, size_t kRows>
HWY_NOINLINE void ProductOf(const ProductArgs& args, size_t tile, size_t row, size_t valid, const Panel& panel) {
  const DF32 df;
  const uint8_t* weights = args.weights + tile * TileBytes<Codec>(args.k);
  const RowSet<kRows> rows = SelectRows<kRows>(args, row, valid);
  VF32 acc[kVectors * kRows];
  const auto for_each = [&](auto visit) MOONLIT_INLINE_LAMBDA {
    Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA {
      Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA { visit(v, r, acc[v * kRows + r]); });
    });
  };
  if (panel.block_begin == 0) {
    for_each([&](auto, auto, VF32& a) MOONLIT_INLINE_LAMBDA { a = hn::Zero(df); });
  } else {
    for_each([&](auto v, auto r, VF32& a)
                 MOONLIT_INLINE_LAMBDA { a = hn::LoadU(df, panel.sums + r * panel.stride + v * kLanes); });
  }
  for (size_t b = panel.block_begin; b < panel.block_end; ++b) AddBlock<Codec, kRows>(weights, b, rows, acc);
  if (panel.block_end < panel.blocks) {
    for_each([&](auto v, auto r, VF32& a)
                 MOONLIT_INLINE_LAMBDA { hn::StoreU(a, df, panel.sums + r * panel.stride + v * kLanes); });
    return;
  }
  for_each([&](auto v, auto r, VF32& a) MOONLIT_INLINE_LAMBDA {
    const size_t n = tile * kTile + v * kLanes;
    if (n < args.n && r < valid) StoreVector(args, row + r, n, a);
  });
}

// What is shared by the loops over a block of rows and a group of tiles: the activations of a panel stay in the first-level
// cache while the group's tiles pass, the weights of a group's panel stay in the second-level one while the rows pass.
constexpr size_t kBlockRows = 64;
constexpr size_t kGroupTiles = 8;
constexpr size_t kPanelBytes = 16 * 1024;

// Tiles [tile, tile_end) for rows [row, row + valid) in one pass over each.
template <class Codec, size_t kRows>
HWY_INLINE void TilesOf(const ProductArgs& args, size_t tile, size_t tile_end, size_t row, size_t valid, Panel panel) {
  for (; tile < tile_end; ++tile) {
    ProductOf<Codec, kRows>(args, tile, row, valid, panel);
    panel.sums += kTile;
  }
}

// In as few passes over the tiles as the registers allow. Starts are multiples of the rows that a pass takes, so that its
// unused rows have room in the panel's sums.
template <class Codec>
HWY_INLINE void RowsOf(const ProductArgs& args, size_t tile, size_t tile_end, size_t row, size_t row_end, Panel panel) {
  while (row < row_end) {
    const size_t left = row_end - row;
    size_t done = 1;
    if (kMaxRows >= 16 && left > 12) {
      done = kMaxRows >= 16 ? 16 : 1;
      TilesOf<Codec, kMaxRows >= 16 ? 16 : 1>(args, tile, tile_end, row, left < done ? left : done, panel);
    } else if (kMaxRows >= 8 && left > 4) {
      done = kMaxRows >= 8 ? 8 : 1;
      TilesOf<Codec, kMaxRows >= 8 ? 8 : 1>(args, tile, tile_end, row, left < done ? left : done, panel);
    } else if (kMaxRows >= 4 && left > 2) {
      done = kMaxRows >= 4 ? 4 : 1;
      TilesOf<Codec, kMaxRows >= 4 ? 4 : 1>(args, tile, tile_end, row, left < done ? left : done, panel);
    } else if (left >= 2) {
      done = 2;
      TilesOf<Codec, 2>(args, tile, tile_end, row, 2, panel);
    } else {
      TilesOf<Codec, 1>(args, tile, tile_end, row, 1, panel);
    }
    row += done;
    panel.sums += done * panel.stride;
  }
}

// Blocks of a panel, so that the activations of one pass fill kPanelBytes.
template <class Codec>
HWY_INLINE size_t PanelBlocks(size_t rows) {
  const size_t together = rows < kMaxRows ? rows : kMaxRows;
  const size_t blocks = kPanelBytes / together / Codec::kBlock;
  return blocks == 0 ? 1 : blocks;
}

template <class Codec>
void Multiply(const ProductArgs& args) {
  const size_t blocks = args.k / Codec::kBlock;
  size_t tile = args.tile_begin;
  if (args.rows == 1) {
    const Panel all = {0, blocks, blocks, nullptr, 0};
    for (; tile < args.tile_end; ++tile) ProductOf<Codec, 1>(args, tile, 0, 1, all);
    return;
  }
  HWY_ALIGN float sums[kBlockRows * kGroupTiles * kTile];
  const size_t step = PanelBlocks<Codec>(args.rows);
  for (size_t row = 0; row < args.rows; row += kBlockRows) {
    const size_t row_end = row + kBlockRows < args.rows ? row + kBlockRows : args.rows;
    for (tile = args.tile_begin; tile < args.tile_end; tile += kGroupTiles) {
      const size_t tile_end = tile + kGroupTiles < args.tile_end ? tile + kGroupTiles : args.tile_end;
      for (size_t b = 0; b < blocks; b += step) {
        const Panel panel = {b, b + step < blocks ? b + step : blocks, blocks, sums, kGroupTiles * kTile};
        RowsOf<Codec>(args, tile, tile_end, row, row_end, panel);
      }
    }
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
