// SPDX-License-Identifier: Apache-2.0
// The product of A8 activations with a packed tile, written once for every block format.
//
// A codec (matmul_<stem>.cc) tells what the words of a block mean:
//
//   kFormat, kBlock, kBytes        the format, values and bytes of a file block
//   kSmall, kBig                   its fields (layout-inl.h)
//   kChunks, kUnits                a block is kChunks times kUnits units of 32 k, K ascending; units are unrolled
//                                where a pass has few rows
//   kParts                         scales a unit: 1 (32 values) or 2 (16 values each)
//   kHasMin                        whether a second term Σa · add exists
//   kSigned, kBound                weights are signed bytes of magnitude kBound or less, or unsigned ones up to kBound
//   kOffset                        what unsigned weights carry too much; taken off by the activations' sums
//   Scales(small, v, scale, add)   all scales (and addends, = -minimum) of vector v of the block, as floats in lane order
//   Weights<unit>(small, big, chunk, v, w)   eight vectors of bytes: step s holds k = 4s .. 4s + 3 of the unit
//
// One body serves every number of rows that the registers hold, tile by tile. The weights of a unit are unpacked once, into
// eight registers, and used for all rows. With one row too: several tiles side by side would open as many streams of memory,
// and one stream that runs straight on was read a third faster (Zen 4: Q4_0 29 GB/s a core instead of 20 with four, Q4_K 27
// instead of 14). More rows go by way of panels (panel_product-inl.h). An output has one float accumulator and meets its blocks
// in the same order in every shape, so the bits never depend on it.
#pragma once

#include "kernels/matmul/layout-inl.h"
#include "kernels/matmul/store-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// Most rows that one pass over a tile serves: accumulators, eight weight vectors and temporaries must fit the registers.
// AVX-512 has room for sixteen, but what they save in unpacking they lose beside it: eight were as fast, or faster by up to 6%.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || (HWY_ARCH_ARM_A64 && HWY_TARGET_IS_NEON)
constexpr size_t kMaxRows = 8;
#elif MOONLIT_EMULATED
constexpr size_t kMaxRows = 1;
#else
constexpr size_t kMaxRows = 4;
#endif
// Rows whose dot products take turns.
constexpr size_t kMaxTurns = HWY_ARCH_ARM_A64 || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) ? 4
                             : HWY_TARGET == HWY_AVX2                                     ? 2
                                                                                          : 1;

// Where kRows rows of one block of activations (a8.h) stand in their walk along K: at one unit of 32 k.
struct RowSet {
  const int8_t* q;           // row r at q + 32 r
  const float* scale;        // [kRows]
  const int32_t* minus_sum;  // [kRows] of the first half
  size_t sum_stride;         // from there to the second half
  size_t unit_bytes;

  HWY_INLINE void Skip(size_t units) {
    const size_t bytes = units * unit_bytes;
    q += bytes;
    scale = reinterpret_cast<const float*>(reinterpret_cast<const uint8_t*>(scale) + bytes);
    minus_sum = reinterpret_cast<const int32_t*>(reinterpret_cast<const uint8_t*>(minus_sum) + bytes);
  }
};

HWY_INLINE RowSet SelectRows(const A8View& a8, size_t row) {
  const uint8_t* unit = A8Unit(a8, row, 0);
  const size_t i = A8RowInBlock(a8, row);
  const float* scales = reinterpret_cast<const float*>(unit + kA8Group * a8.block_rows);
  return {reinterpret_cast<const int8_t*>(unit) + kA8Group * i, scales + i,
          reinterpret_cast<const int32_t*>(scales + a8.block_rows) + i, a8.block_rows, A8UnitBytes(a8.block_rows)};
}

// A codec's weights in a panel (panel-inl.h).
template <size_t kParts, bool kHasMin, bool kSigned, int kBound, int kOffset>
struct PanelOf;
// Whether the weights are in the order of DotByOutput.
template <class Codec>
constexpr bool kByOutput = false;
#if MOONLIT_HAS_DOT_BY_OUTPUT
template <size_t kParts, bool kHasMin, bool kSigned, int kBound, int kOffset>
constexpr bool kByOutput<PanelOf<kParts, kHasMin, kSigned, kBound, kOffset>> = true;
#endif

template <class Codec, size_t kFirst, size_t kSteps, size_t kRows>
HWY_INLINE void Dot(const int8_t* const (&a)[kRows], const VU8 (&w)[8], VI32 (&sums)[kRows]) {
#if MOONLIT_HAS_DOT_BY_OUTPUT
  if constexpr (kByOutput<Codec>) {
    static_assert(kRows == 1 || kRows % 2 == 0);
    VI8 s[8];
    Unroll<8>([&](auto i) MOONLIT_INLINE_LAMBDA { s[i] = hn::BitCast(DI8(), w[i]); });
    constexpr size_t kTwo = kRows < 2 ? 1 : 2;
    Unroll<kRows / kTwo>([&](auto i) MOONLIT_INLINE_LAMBDA {
      const int8_t* const of_rows[2] = {a[kTwo * i], a[kTwo * i + kTwo - 1]};
      DotByOutput<Codec::kBound, kFirst / 4, kSteps / 4, kTwo>(of_rows, s, sums + kTwo * i);
    });
    return;
  }
#endif
#if MOONLIT_HAS_VPDPBUSD512 || (MOONLIT_HAS_VPDPBUSD256 && HWY_MAX_BYTES == 32)
  DotUnsigned<Codec::kSigned ? 255 : Codec::kBound, kFirst, kSteps>(a, w, sums);
#else
  if constexpr (Codec::kSigned) {
    VI8 s[8];
    Unroll<kSteps>([&](auto i) MOONLIT_INLINE_LAMBDA { s[kFirst + i] = hn::BitCast(DI8(), w[kFirst + i]); });
    DotSigned<kFirst, kSteps, Codec::kBound>(a, s, sums);
  } else {
    DotUnsigned<Codec::kBound, kFirst, kSteps>(a, w, sums);
  }
#endif
}

template <class Codec>
constexpr int OffsetOf() {
  return Codec::kSigned ? (kBiasSignedWeights ? 128 : 0) : Codec::kOffset;
}

constexpr int Log2(int power) { return power <= 1 ? 0 : 1 + Log2(power / 2); }

// -(sum of row `row`'s activations) of part kPart: of half kPart where there are two parts, else of both halves.
template <size_t kParts, size_t kPart>
HWY_INLINE VI32 MinusSum(const RowSet& rows, size_t row) {
  const DI32 di32;
  const VI32 half = hn::Set(di32, rows.minus_sum[row + kPart * rows.sum_stride]);
  return kParts == 2 ? half : hn::Add(half, hn::Set(di32, rows.minus_sum[row + rows.sum_stride]));
}

#if HWY_ARCH_ARM_A64 && HWY_TARGET_IS_NEON
// The same for rows [row, row + 4), a lane a row.
template <size_t kParts, size_t kPart>
HWY_INLINE VI32 FourMinusSums(const RowSet& rows, size_t row) {
  const DI32 di32;
  const VI32 half = hn::LoadU(di32, rows.minus_sum + row + kPart * rows.sum_stride);
  return kParts == 2 ? half : hn::Add(half, hn::LoadU(di32, rows.minus_sum + row + rows.sum_stride));
}

// A sum begins at the bits of the float 1.5 * 2^23, at which one step of a float is one: the sum's magnitude is below 2^20, so
// one subtraction of floats makes it a float, exactly. The conversion instruction would take two cycles of one of the A76's two
// pipes.
// Without sdot the start would have to be added.
#if MOONLIT_HAS_SDOT
HWY_INLINE VI32 SumOrigin() { return hn::Set(DI32(), 0x4B400000); }
HWY_INLINE VF32 SumToFloat(VI32 sum) { return hn::Sub(hn::BitCast(DF32(), sum), hn::BitCast(DF32(), SumOrigin())); }
#else
HWY_INLINE VI32 SumOrigin() { return hn::Zero(DI32()); }
HWY_INLINE VF32 SumToFloat(VI32 sum) { return hn::ConvertTo(DF32(), sum); }
#endif

// AddUnit for four rows, whose scales and sums are read as vectors and used lane by lane.
// With kLoad the weights are first read from `weights`, [8] vectors, into w.
template <class Codec, size_t kRow, bool kLoad>
HWY_INLINE void AddUnitOfFourRows(const RowSet& rows, [[maybe_unused]] const uint8_t* weights, VU8 (&w)[8],
                                  const VF32* scale, const VF32* min, VF32* acc) {
  constexpr size_t kParts = Codec::kParts;
  const DF32 df;
  const VI32 origin = SumOrigin();
  const VF32 a_scale = hn::LoadU(df, rows.scale + kRow);
  const int8_t* const q = rows.q + kA8Group * kRow;
  VF32 total[4];
  Unroll<kParts>([&](auto part) MOONLIT_INLINE_LAMBDA {
    constexpr size_t p = decltype(part)::value;
    VI32 sums[4] = {origin, origin, origin, origin};
    if constexpr (OffsetOf<Codec>() != 0) {
      const VI32 start = hn::Add(origin, hn::ShiftLeft<Log2(OffsetOf<Codec>())>(FourMinusSums<kParts, p>(rows, kRow)));
      Unroll<4>([&](auto r) MOONLIT_INLINE_LAMBDA { sums[r] = hn::BroadcastLane<r>(start); });
    }
    constexpr size_t kFirst = 8 / kParts * p, kSteps = 8 / kParts;
    const int8_t* const a[4] = {q, q + kA8Group, q + 2 * kA8Group, q + 3 * kA8Group};
#if MOONLIT_HAS_LOAD_AND_DOT
    if constexpr (kLoad) {
      LoadAndDotFourRows<kFirst, kSteps>(a, weights, w, sums);
    } else {
      Dot<Codec, kFirst, kSteps>(a, w, sums);
    }
#else
    Dot<Codec, kFirst, kSteps>(a, w, sums);
#endif
    Unroll<4>([&](auto r) MOONLIT_INLINE_LAMBDA {
      const VF32 product = SumToFloat(sums[r]);
      if constexpr (kParts == 1 && !Codec::kHasMin) {
        acc[kRow + r] = hn::MulAdd(product, MulByLane<r>(scale[p], a_scale), acc[kRow + r]);
      } else {
        total[r] = p == 0 ? hn::Mul(product, scale[p]) : hn::MulAdd(product, scale[p], total[r]);
      }
    });
  });
  if constexpr (kParts == 1 && !Codec::kHasMin) return;
  if constexpr (Codec::kHasMin) {
    Unroll<kParts>([&](auto p) MOONLIT_INLINE_LAMBDA {
      const VF32 minus_sums = hn::ConvertTo(df, FourMinusSums<kParts, decltype(p)::value>(rows, kRow));
      Unroll<4>([&](auto r) MOONLIT_INLINE_LAMBDA { total[r] = MulAddByLane<r>(min[p], minus_sums, total[r]); });
    });
  }
  Unroll<4>([&](auto r) MOONLIT_INLINE_LAMBDA { acc[kRow + r] = MulAddByLane<r>(total[r], a_scale, acc[kRow + r]); });
}
#endif

// Rows [kRow, kRow + kCount) of one unit of 32 k and one vector of outputs; acc[r] belongs to row r.
template <class Codec, size_t kRow, size_t kCount>
MOONLIT_INNER void AddUnit(const RowSet& rows, const VU8 (&w)[8], const VF32* scale, const VF32* min, VF32* acc) {
  constexpr int kOffset = OffsetOf<Codec>();
  static_assert(kOffset == 0 || kOffset == 1 << Log2(kOffset), "taken off by a shift");
#if HWY_ARCH_ARM_A64 && HWY_TARGET_IS_NEON
  if constexpr (kCount == 4) {
    VU8 same[8];
    Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA { same[s] = w[s]; });
    return AddUnitOfFourRows<Codec, kRow, false>(rows, nullptr, same, scale, min, acc);
  }
#endif
  constexpr size_t kParts = Codec::kParts;
  const DF32 df;
  const int8_t* a[kCount];
  Unroll<kCount>([&](auto r) MOONLIT_INLINE_LAMBDA { a[r] = rows.q + kA8Group * (kRow + r); });
  VF32 total[kCount];
  Unroll<kParts>([&](auto part) MOONLIT_INLINE_LAMBDA {
    constexpr size_t p = decltype(part)::value;
    VI32 sums[kCount];
    Unroll<kCount>([&](auto r) MOONLIT_INLINE_LAMBDA {
      if constexpr (kOffset == 0) {
        sums[r] = hn::Zero(DI32());
      } else {
        sums[r] = hn::ShiftLeft<Log2(kOffset)>(MinusSum<kParts, p>(rows, kRow + r));
      }
    });
    Dot<Codec, 8 / kParts * p, 8 / kParts>(a, w, sums);
    Unroll<kCount>([&](auto r) MOONLIT_INLINE_LAMBDA {
      const VF32 product = hn::ConvertTo(df, sums[r]);
      if constexpr (kParts == 1 && !Codec::kHasMin) {
        const VF32 a_scale = hn::Set(df, rows.scale[kRow + r]);
        acc[kRow + r] = hn::MulAdd(product, hn::Mul(a_scale, scale[p]), acc[kRow + r]);
      } else {
        total[r] = p == 0 ? hn::Mul(product, scale[p]) : hn::MulAdd(product, scale[p], total[r]);
      }
    });
  });
  if constexpr (kParts == 1 && !Codec::kHasMin) return;
  if constexpr (Codec::kHasMin) {
    Unroll<kParts>([&](auto p) MOONLIT_INLINE_LAMBDA {
      Unroll<kCount>([&](auto r) MOONLIT_INLINE_LAMBDA {
        const VF32 minus_sum = hn::ConvertTo(df, MinusSum<kParts, decltype(p)::value>(rows, kRow + r));
        total[r] = hn::MulAdd(minus_sum, min[p], total[r]);
      });
    });
  }
  Unroll<kCount>([&](auto r) MOONLIT_INLINE_LAMBDA {
    acc[kRow + r] = hn::MulAdd(hn::Set(df, rows.scale[kRow + r]), total[r], acc[kRow + r]);
  });
}

// Asks for the lines of one unit that lie kAheadBytes further in this stream, into the second-level cache: asked into the
// first, they keep its few miss buffers busy. How far was measured on one Zen 4 core. With one row or two a block is done so fast
// that the hardware's prefetcher is as far ahead, and what is asked for beyond 1 KiB disturbs it (Q4_0 31 GB/s at 1 KiB, 22 at
// 8). It does little where words are read again by other units, or more rows take their time: Q6_K with one row 6 GB/s at
// 1 KiB, 21 at 8; with eight rows Q4_0 9 and 13, Q8_0 14 and 23.
template <class Codec, size_t kRows>
HWY_INLINE void PrefetchAhead(const uint8_t* block, size_t unit) {
  constexpr size_t kUnitsOfBlock = Codec::kChunks * Codec::kUnits;
  constexpr size_t kAheadBytes = kRows <= 2 && Codec::kUnits < 4 ? 1024 : 8192;
  constexpr size_t kLines = (Codec::kBytes * kTile + 64 * kUnitsOfBlock - 1) / (64 * kUnitsOfBlock);
  const uint8_t* ahead = block + kAheadBytes + unit * kLines * 64;
  Unroll<kLines>([&](auto i) MOONLIT_INLINE_LAMBDA { __builtin_prefetch(ahead + 64 * i, 0, 2); });
}

template <class Codec>
MOONLIT_INNER void LoadScales(const uint8_t* small, size_t v, VF32* scale, VF32* min) {
  Codec::Scales(small, v, scale, min);
}

template <class Codec, size_t kUnit>
MOONLIT_INNER void LoadWeights(const uint8_t* small, const uint8_t* big, size_t chunk, size_t v, VU8 (&w)[8]) {
  Codec::template Weights<kUnit>(small, big, chunk, v, w);
}

// The same for a unit that is known only when it runs.
template <class Codec, size_t kUnit = 0>
HWY_INLINE void LoadWeightsOfUnit(const uint8_t* small, const uint8_t* big, size_t chunk, size_t unit, size_t v,
                                  VU8 (&w)[8]) {
  if constexpr (kUnit + 1 == Codec::kUnits) {
    LoadWeights<Codec, kUnit>(small, big, chunk, v, w);
  } else if (unit == kUnit) {
    LoadWeights<Codec, kUnit>(small, big, chunk, v, w);
  } else {
    LoadWeightsOfUnit<Codec, kUnit + 1>(small, big, chunk, unit, v, w);
  }
}

template <class Codec, size_t kRows>
HWY_INLINE void AddBlock(const uint8_t* tile, size_t block, const RowSet& block_rows, VF32 (&acc)[kVectors * kRows]) {
  using L = Layout<Codec>;
  constexpr size_t kScales = Codec::kChunks * Codec::kUnits * Codec::kParts;
  constexpr size_t kTurns = kRows < kMaxTurns ? kRows : kMaxTurns;
  const uint8_t* small = tile + L::Small(block);
  const uint8_t* big = tile + L::Big(block);
  Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA {
    VF32 scale[kScales];
    VF32 min[kScales];
    LoadScales<Codec>(small, v, scale, min);
    RowSet rows = block_rows;
    if constexpr (Codec::kUnits > 1 && kRows >= 8) {
      // The rows' part is long, and a branch beside it costs nothing; unrolled it would be there once a unit.
      for (size_t unit = 0; unit < Codec::kChunks * Codec::kUnits; ++unit) {
        VU8 w[8];
        LoadWeightsOfUnit<Codec>(small, big, unit / Codec::kUnits, unit % Codec::kUnits, v, w);
        PrefetchAhead<Codec, kRows>(big, unit);
        Unroll<kRows / kTurns>([&](auto r) MOONLIT_INLINE_LAMBDA {
          AddUnit<Codec, decltype(r)::value * kTurns, kTurns>(rows, w, scale + unit * Codec::kParts,
                                                              min + unit * Codec::kParts, acc + v * kRows);
        });
        rows.Skip(1);
      }
      return;
    }
    for (size_t chunk = 0; chunk < Codec::kChunks; ++chunk) {
      Unroll<Codec::kUnits>([&](auto u) MOONLIT_INLINE_LAMBDA {
        VU8 w[8];
        LoadWeights<Codec, decltype(u)::value>(small, big, chunk, v, w);
        const size_t unit = chunk * Codec::kUnits + u;
        const size_t at = Codec::kChunks == 1 ? u * Codec::kParts : unit * Codec::kParts;
        PrefetchAhead<Codec, kRows>(big, unit);
        VF32* out = acc + v * kRows;
        Unroll<kRows / kTurns>([&](auto r) MOONLIT_INLINE_LAMBDA {
          AddUnit<Codec, decltype(r)::value * kTurns, kTurns>(rows, w, scale + at, min + at, out);
        });
        rows.Skip(1);
      });
    }
  });
}

template <size_t kRows, class Visit>
HWY_INLINE void ForEachSum(VF32 (&acc)[kVectors * kRows], Visit&& visit) {
  Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA {
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA { visit(v, r, acc[v * kRows + r]); });
  });
}

template <size_t kRows>
HWY_INLINE void StoreSums(const ProductArgs& args, size_t tile, size_t row, size_t valid,
                          VF32 (&acc)[kVectors * kRows]) {
  ForEachSum<kRows>(acc, [&](auto v, auto r, VF32& a) MOONLIT_INLINE_LAMBDA {
    const size_t n = tile * kTile + v * kLanes;
    if (n < args.n && r < valid) StoreVector(args, row + r, n, a);
  });
}

// Rows [row, row + valid), valid <= kRows, of one tile; row + kRows does not leave the row's block of activations. Rows past the
// valid ones are computed from whatever lies there, and never stored.
template <class Codec, size_t kRows>
HWY_NOINLINE void ProductOf(const ProductArgs& args, size_t tile, size_t row, size_t valid) {
  constexpr size_t kUnitsOfBlock = Codec::kBlock / kA8Group;
  const uint8_t* weights = args.weights + tile * TileBytes<Codec>(args.k);
  RowSet rows = SelectRows(args.a8, row);
  VF32 acc[kVectors * kRows];
  ForEachSum<kRows>(acc, [&](auto, auto, VF32& a) MOONLIT_INLINE_LAMBDA { a = hn::Zero(DF32()); });
  for (size_t b = 0; b < args.k / Codec::kBlock; ++b, rows.Skip(kUnitsOfBlock)) {
    AddBlock<Codec, kRows>(weights, b, rows, acc);
  }
  StoreSums<kRows>(args, tile, row, valid, acc);
}

// Rows of the next pass where `left` are left. From four rows on a pass takes time by its rows, so one that would be less than
// three quarters full is left to shorter ones: six rows go as 4 and 2. Fewer than four rows take as long as four.
constexpr size_t PassRows(size_t left, size_t room) {
  size_t rows = 1;
  while ((rows < 4 ? left > rows : 2 * left > 3 * rows) && 2 * rows <= kMaxRows && 2 * rows <= room) rows *= 2;
  return rows;
}

// Passes there are: of 1, 2, 4 ... kMaxRows rows.
constexpr size_t kPasses = Log2(kMaxRows) + 1;

// Calls visit(row, valid, pass) for rows [row, row_end), in few passes of 1 << pass rows that do not leave a block of activations.
template <class Visit>
HWY_INLINE void ForEachPass(const A8View& a8, size_t row, size_t row_end, Visit&& visit) {
  while (row < row_end) {
    const size_t left = row_end - row;
    const size_t rows = PassRows(left, a8.block_rows - A8RowInBlock(a8, row));
    const size_t valid = left < rows ? left : rows;
    visit(row, valid, static_cast<size_t>(__builtin_ctzll(rows)));
    row += valid;
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
