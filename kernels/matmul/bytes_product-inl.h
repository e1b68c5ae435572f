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
// One body serves all shapes: kRows rows by kTiles tiles. The weights of a unit are unpacked once, into eight registers,
// and used for all rows; with one row several tiles run side by side so that more than one stream of memory is open.
// An output has one float accumulator and meets its blocks in the same order in every shape, so the bits never depend on it.
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
constexpr size_t kMaxTiles = MOONLIT_EMULATED ? 1 : 4;

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

template <class Codec, size_t kFirst, size_t kSteps>
HWY_INLINE VI32 Dot(const int8_t* HWY_RESTRICT a, const VU8 (&w)[8], VI32 init) {
  if constexpr (!Codec::kSigned) {
    return DotUnsigned<Codec::kBound, kFirst, kSteps>(a, w, init);
#if MOONLIT_HAS_VPDPBUSD512 || (MOONLIT_HAS_VPDPBUSD256 && HWY_MAX_BYTES == 32)
  } else {
    return DotUnsigned<255, kFirst, kSteps>(a, w, init);
#else
  } else {
    VI8 s[8];
    Unroll<kSteps>([&](auto i) MOONLIT_INLINE_LAMBDA { s[kFirst + i] = hn::BitCast(DI8(), w[kFirst + i]); });
    return DotSigned<kFirst, kSteps>(a, s, init);
#endif
  }
}

template <class Codec>
constexpr int OffsetOf() {
  return Codec::kSigned ? (kBiasSignedWeights ? 128 : 0) : Codec::kOffset;
}

// One unit of 32 k for one row and one vector of outputs.
template <class Codec>
MOONLIT_INNER VF32 AddUnit(const int8_t* HWY_RESTRICT a, const int16_t* HWY_RESTRICT sums, float a_scale, const VU8 (&w)[8],
                        const VF32* scale, const VF32* add, VF32 acc) {
  constexpr int kOffset = OffsetOf<Codec>();
  const DF32 df;
  const VF32 as = hn::Set(df, a_scale);
  if constexpr (Codec::kParts == 1) {
    VI32 sum = hn::Zero(DI32());
    if constexpr (kOffset != 0) sum = SumOfTwoTimes<-kOffset>(sums);
    sum = Dot<Codec, 0, 8>(a, w, sum);
    acc = hn::MulAdd(hn::ConvertTo(df, sum), hn::Mul(as, scale[0]), acc);
    if constexpr (Codec::kHasMin) acc = hn::MulAdd(hn::ConvertTo(df, SumOfTwo(sums)), hn::Mul(as, add[0]), acc);
  } else {
    Unroll<2>([&](auto part) MOONLIT_INLINE_LAMBDA {
      constexpr size_t p = decltype(part)::value;
      VI32 sum = hn::Zero(DI32());
      if constexpr (kOffset != 0) sum = OneOfTwoTimes<-kOffset, p>(sums);
      sum = Dot<Codec, 4 * p, 4>(a, w, sum);
      acc = hn::MulAdd(hn::ConvertTo(df, sum), hn::Mul(as, scale[p]), acc);
      if constexpr (Codec::kHasMin) {
        acc = hn::MulAdd(hn::ConvertTo(df, OneOfTwoTimes<1, p>(sums)), hn::Mul(as, add[p]), acc);
      }
    });
  }
  return acc;
}

// Asks for the block that lies `kAheadBytes` further in this stream.
template <class Codec>
HWY_INLINE void PrefetchAhead(const uint8_t* block) {
  constexpr size_t kAheadBytes = 2048;
  constexpr size_t kLines = (Codec::kBytes * kTile + 63) / 64;
  Unroll<kLines>([&](auto i) MOONLIT_INLINE_LAMBDA { __builtin_prefetch(block + kAheadBytes + 64 * i); });
}

template <class Codec, size_t kUnit>
MOONLIT_INNER void LoadWeights(const uint8_t* small, const uint8_t* big, size_t chunk, size_t v, VU8 (&w)[8]) {
  Codec::template Weights<kUnit>(small, big, chunk, v, w);
}

template <class Codec, size_t kRows, size_t kTiles>
HWY_INLINE void AddBlock(const uint8_t* tile, size_t tile_bytes, size_t block, const RowSet<kRows>& rows,
                         VF32 (&acc)[kTiles * kVectors * kRows]) {
  using L = Layout<Codec>;
  constexpr size_t kScales = Codec::kChunks * Codec::kUnits * Codec::kParts;
  const size_t small_at = L::Small(block);
  const size_t big_at = L::Big(block);
  Unroll<kTiles>([&](auto t) MOONLIT_INLINE_LAMBDA {
    const uint8_t* small = tile + t * tile_bytes + small_at;
    const uint8_t* big = tile + t * tile_bytes + big_at;
    if constexpr (kRows == 1) PrefetchAhead<Codec>(big);
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
          Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
            constexpr size_t i = (decltype(t)::value * kVectors + decltype(v)::value) * kRows + decltype(r)::value;
            acc[i] = AddUnit<Codec>(rows.q[r] + kA8Group * group, rows.sums[r] + 2 * group, rows.scale[r][group], w, scale + at,
                                    add + at, acc[i]);
          });
        });
      }
    });
  });
}

// Rows [row, row + valid), valid <= kRows, of tiles [tile, tile + kTiles).
template <class Codec, size_t kRows, size_t kTiles>
HWY_NOINLINE void ProductOf(const ProductArgs& args, size_t tile, size_t row, size_t valid) {
  const size_t tile_bytes = TileBytes<Codec>(args.k);
  const uint8_t* weights = args.weights + tile * tile_bytes;
  const RowSet<kRows> rows = SelectRows<kRows>(args, row, valid);
  const size_t blocks = args.k / Codec::kBlock;
  VF32 acc[kTiles * kVectors * kRows];
  Unroll<kTiles * kVectors * kRows>([&](auto i) MOONLIT_INLINE_LAMBDA { acc[i] = hn::Zero(DF32()); });
  for (size_t b = 0; b < blocks; ++b) AddBlock<Codec, kRows, kTiles>(weights, tile_bytes, b, rows, acc);
  Unroll<kTiles>([&](auto t) MOONLIT_INLINE_LAMBDA {
    Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA {
      const size_t n = (tile + t) * kTile + v * kLanes;
      if (n >= args.n) return;
      Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
        if (r < valid) StoreVector(args, row + r, n, acc[(t * kVectors + v) * kRows + r]);
      });
    });
  });
}

// All rows of a block of rows for one tile, in as few passes over the tile as the registers allow.
template <class Codec>
HWY_INLINE void RowsOfTile(const ProductArgs& args, size_t tile, size_t row, size_t row_end) {
  while (row < row_end) {
    const size_t left = row_end - row;
    if (kMaxRows >= 16 && left > 12) {
      constexpr size_t kRows = kMaxRows >= 16 ? 16 : 1;
      const size_t valid = left < kRows ? left : kRows;
      ProductOf<Codec, kRows, 1>(args, tile, row, valid);
      row += valid;
    } else if (kMaxRows >= 8 && left > 4) {
      constexpr size_t kRows = kMaxRows >= 8 ? 8 : 1;
      const size_t valid = left < kRows ? left : kRows;
      ProductOf<Codec, kRows, 1>(args, tile, row, valid);
      row += valid;
    } else if (kMaxRows >= 4 && left > 2) {
      constexpr size_t kRows = kMaxRows >= 4 ? 4 : 1;
      const size_t valid = left < kRows ? left : kRows;
      ProductOf<Codec, kRows, 1>(args, tile, row, valid);
      row += valid;
    } else if (left >= 2) {
      ProductOf<Codec, 2, 1>(args, tile, row, 2);
      row += 2;
    } else {
      ProductOf<Codec, 1, 1>(args, tile, row, 1);
      row += 1;
    }
  }
}

// Rows whose activations stay in the second-level cache while the tiles of a task pass by.
HWY_INLINE size_t RowsInCache(size_t k) {
  constexpr size_t kCacheBytes = 256 * 1024;
  const size_t rows = kCacheBytes / (k + 1) / kMaxRows * kMaxRows;
  return rows < kMaxRows ? kMaxRows : rows;
}

template <class Codec>
void Multiply(const ProductArgs& args) {
  if (args.rows == 1) {
    size_t tile = args.tile_begin;
    for (; tile + kMaxTiles <= args.tile_end; tile += kMaxTiles) ProductOf<Codec, 1, kMaxTiles>(args, tile, 0, 1);
    for (; tile < args.tile_end; ++tile) ProductOf<Codec, 1, 1>(args, tile, 0, 1);
    return;
  }
  const size_t step = RowsInCache(args.k);
  for (size_t row = 0; row < args.rows; row += step) {
    const size_t row_end = row + step < args.rows ? row + step : args.rows;
    for (size_t tile = args.tile_begin; tile < args.tile_end; ++tile) RowsOfTile<Codec>(args, tile, row, row_end);
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
