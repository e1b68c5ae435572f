// SPDX-License-Identifier: Apache-2.0
// Passes over a panel by smmla, which multiplies 2 rows × 8 k by 8 k × 2 outputs: twice the work of sdot in the same time on most
// cores that have both. A sum is then a square of two rows and two outputs:
//
//   lanes = {row 0 · output 0, row 0 · output 1, row 1 · output 0, row 1 · output 1}
//
// Packed tiles are the same as without smmla, and passes outside panels go by sdot: two words of one output's weights that lie
// kTile words apart become eight consecutive k by one interleaving, when the panel is unpacked. Sums are exact either way and
// every float operation is the contract's (matmul.h), so the bits do not tell which instruction ran.
//
//   panel = units, K ascending
//   unit  = four squares' weights, outputs 2c and 2c + 1:
//           [4][2][8] bytes (k / 8, output, k % 8) | scales [kParts][2][2] (the two outputs' twice) | minima likewise
#pragma once

#include "kernels/matmul/panel-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

constexpr size_t kSquares = kTile / 2;

template <class Panel>
struct SquareUnit {
  static constexpr size_t kScale = 4 * 16;
  static constexpr size_t kMin = kScale + Panel::kParts * 16;
  static constexpr size_t kBytes = kMin + (Panel::kHasMin ? Panel::kParts * 16 : 0);  // of one square
};

// Lanes {a, b, c, d} as {a, b, a, b} and {c, d, c, d}, for the squares 2v and 2v + 1.
HWY_INLINE void StoreForSquares(VF32 lanes, uint8_t* first, size_t square_bytes) {
  const DF32 df;
  hn::StoreU(hn::ConcatLowerLower(df, lanes, lanes), df, reinterpret_cast<float*>(first));
  hn::StoreU(hn::ConcatUpperUpper(df, lanes, lanes), df, reinterpret_cast<float*>(first + square_bytes));
}

template <class Codec>
HWY_INLINE void UnpackBlockOfSquares(const uint8_t* tile, size_t block, size_t v, uint8_t* panel) {
  using L = Layout<Codec>;
  using U = SquareUnit<InPanel<Codec>>;
  constexpr size_t kScales = Codec::kChunks * Codec::kUnits * Codec::kParts;
  const uint8_t* small = tile + L::Small(block);
  const uint8_t* big = tile + L::Big(block);
  uint8_t* squares = panel + 2 * v * U::kBytes;
  VF32 scale[kScales];
  VF32 min[kScales];
  Codec::Scales(small, v, scale, min);
  Unroll<kScales>([&](auto i) MOONLIT_INLINE_LAMBDA {
    uint8_t* at = squares + i / Codec::kParts * kSquares * U::kBytes + i % Codec::kParts * 16;
    StoreForSquares(scale[i], at + U::kScale, U::kBytes);
    if constexpr (Codec::kHasMin) StoreForSquares(min[i], at + U::kMin, U::kBytes);
  });
  for (size_t chunk = 0; chunk < Codec::kChunks; ++chunk) {
    Unroll<Codec::kUnits>([&](auto u) MOONLIT_INLINE_LAMBDA {
      VU8 w[8];
      LoadWeights<Codec, decltype(u)::value>(small, big, chunk, v, w);
      PrefetchAhead<Codec, kMaxRows>(big, chunk * Codec::kUnits + u);
      ShiftForPanel<Codec>(w);
      uint8_t* at = squares + (chunk * Codec::kUnits + u) * kSquares * U::kBytes;
      Unroll<4>([&](auto g) MOONLIT_INLINE_LAMBDA {
        const DU32 du32;
        const VU32 first = hn::BitCast(du32, w[2 * g]), second = hn::BitCast(du32, w[2 * g + 1]);
        hn::StoreU(hn::InterleaveLower(du32, first, second), du32, reinterpret_cast<uint32_t*>(at + 16 * g));
        hn::StoreU(hn::InterleaveUpper(du32, first, second), du32,
                   reinterpret_cast<uint32_t*>(at + U::kBytes + 16 * g));
      });
    });
  }
}

template <class Codec>
HWY_NOINLINE void UnpackPanel(const uint8_t* tile, size_t block, size_t block_end, uint8_t* panel) {
  for (; block < block_end; ++block) {
    Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA { UnpackBlockOfSquares<Codec>(tile, block, v, panel); });
    panel += Codec::kBlock / kA8Group * kSquares * SquareUnit<InPanel<Codec>>::kBytes;
  }
}

// What kRows rows bring to one unit: activations as smmla wants them, scales and sums twice each. One row counts as a pair, twice.
template <class Panel, size_t kRows>
struct PairsOfRows {
  static constexpr size_t kPairs = (kRows + 1) / 2;
  VI8 q[kPairs][4];
  VF32 scale[kPairs];
  VF32 minus_sum[Panel::kParts][kPairs];
};

// {a, b, ...} of the rows as {a, a, b, b} for each pair.
template <size_t kRows, class Of>
HWY_INLINE void TwiceEach(Of&& of, VF32* pairs) {
  const DF32 df;
  if constexpr (kRows == 4) {
    const VF32 four = of.Four();
    pairs[0] = hn::InterleaveLower(df, four, four);
    pairs[1] = hn::InterleaveUpper(df, four, four);
  } else {
    pairs[0] = hn::ConcatLowerLower(df, hn::Set(df, of.One(kRows - 1)), hn::Set(df, of.One(0)));
  }
}

struct ScalesOfRows {
  const RowSet& rows;
  HWY_INLINE VF32 Four() const { return hn::LoadU(DF32(), rows.scale); }
  HWY_INLINE float One(size_t row) const { return rows.scale[row]; }
};
template <size_t kParts, size_t kPart>
struct MinusSumsOfRows {
  const RowSet& rows;
  HWY_INLINE VF32 Four() const { return hn::ConvertTo(DF32(), FourMinusSums<kParts, kPart>(rows, 0)); }
  HWY_INLINE float One(size_t row) const {
    return hn::GetLane(hn::ConvertTo(DF32(), MinusSum<kParts, kPart>(rows, row)));
  }
};

template <class Panel, size_t kRows>
HWY_INLINE void LoadPairs(const RowSet& rows, PairsOfRows<Panel, kRows>* pairs) {
  const DI8 di8;
  const hn::Repartition<uint64_t, DI8> du64;
  Unroll<PairsOfRows<Panel, kRows>::kPairs>([&](auto p) MOONLIT_INLINE_LAMBDA {
    const int8_t* first = rows.q + kA8Group * 2 * p;
    const int8_t* second = kRows == 1 ? first : first + kA8Group;
    Unroll<2>([&](auto half) MOONLIT_INLINE_LAMBDA {
      const auto a = hn::BitCast(du64, hn::LoadU(di8, first + 16 * half));
      const auto b = hn::BitCast(du64, hn::LoadU(di8, second + 16 * half));
      pairs->q[p][2 * half] = hn::BitCast(di8, hn::InterleaveLower(du64, a, b));
      pairs->q[p][2 * half + 1] = hn::BitCast(di8, hn::InterleaveUpper(du64, a, b));
    });
  });
  TwiceEach<kRows>(ScalesOfRows{rows}, pairs->scale);
  if constexpr (Panel::kHasMin) {
    Unroll<Panel::kParts>([&](auto part) MOONLIT_INLINE_LAMBDA {
      TwiceEach<kRows>(MinusSumsOfRows<Panel::kParts, decltype(part)::value>{rows}, pairs->minus_sum[part]);
    });
  }
}

// One unit of two outputs, for all pairs.
template <class Panel, size_t kRows>
HWY_INLINE void AddSquares(const uint8_t* square, const PairsOfRows<Panel, kRows>& pairs, VF32* acc) {
  using U = SquareUnit<Panel>;
  constexpr size_t kPairs = PairsOfRows<Panel, kRows>::kPairs;
  constexpr size_t kParts = Panel::kParts;
  const DF32 df;
  VF32 total[kPairs];
  Unroll<kParts>([&](auto part) MOONLIT_INLINE_LAMBDA {
    VI32 sums[kPairs];
    Unroll<kPairs>([&](auto p) MOONLIT_INLINE_LAMBDA { sums[p] = SumOrigin(); });
    Unroll<4 / kParts>([&](auto i) MOONLIT_INLINE_LAMBDA {
      constexpr size_t g = 4 / kParts * decltype(part)::value + decltype(i)::value;
      const VI8 w = hn::LoadU(DI8(), reinterpret_cast<const int8_t*>(square + 16 * g));
      Unroll<kPairs>([&](auto p) MOONLIT_INLINE_LAMBDA { sums[p] = Smmla(sums[p], pairs.q[p][g], w); });
    });
    const VF32 scale = hn::LoadU(df, reinterpret_cast<const float*>(square + U::kScale + 16 * part));
    Unroll<kPairs>([&](auto p) MOONLIT_INLINE_LAMBDA {
      const VF32 product = SumToFloat(sums[p]);
      if constexpr (kParts == 1 && !Panel::kHasMin) {
        acc[p] = hn::MulAdd(product, hn::Mul(pairs.scale[p], scale), acc[p]);
      } else {
        total[p] = part == 0 ? hn::Mul(product, scale) : hn::MulAdd(product, scale, total[p]);
      }
    });
  });
  if constexpr (kParts == 1 && !Panel::kHasMin) return;
  if constexpr (Panel::kHasMin) {
    Unroll<kParts>([&](auto part) MOONLIT_INLINE_LAMBDA {
      const VF32 min = hn::LoadU(df, reinterpret_cast<const float*>(square + U::kMin + 16 * part));
      Unroll<kPairs>([&](auto p)
                         MOONLIT_INLINE_LAMBDA { total[p] = hn::MulAdd(pairs.minus_sum[part][p], min, total[p]); });
    });
  }
  Unroll<kPairs>([&](auto p) MOONLIT_INLINE_LAMBDA { acc[p] = hn::MulAdd(pairs.scale[p], total[p], acc[p]); });
}

// The accumulators of kRows rows: squares of pair p are acc[c * kPairs + p]. In memory a row is kTile floats.
template <size_t kRows>
HWY_INLINE void LoadSquares(const float* sums, VF32* acc) {
  const DF32 df;
  constexpr size_t kPairs = (kRows + 1) / 2;
  Unroll<kVectors * kPairs>([&](auto i) MOONLIT_INLINE_LAMBDA {
    constexpr size_t v = decltype(i)::value / kPairs, p = decltype(i)::value % kPairs;
    const float* at = sums + 2 * p * kTile + v * kLanes;
    const VF32 first = hn::LoadU(df, at), second = hn::LoadU(df, kRows == 1 ? at : at + kTile);
    acc[2 * v * kPairs + p] = hn::ConcatLowerLower(df, second, first);
    acc[(2 * v + 1) * kPairs + p] = hn::ConcatUpperUpper(df, second, first);
  });
}

// Calls store(row, v, vector) for kRows rows.
template <size_t kRows, class Store>
HWY_INLINE void StoreSquares(const VF32* acc, Store&& store) {
  const DF32 df;
  constexpr size_t kPairs = (kRows + 1) / 2;
  Unroll<kVectors * kPairs>([&](auto i) MOONLIT_INLINE_LAMBDA {
    constexpr size_t v = decltype(i)::value / kPairs, p = decltype(i)::value % kPairs;
    const VF32 low = acc[2 * v * kPairs + p], high = acc[(2 * v + 1) * kPairs + p];
    store(2 * p, v, hn::ConcatLowerLower(df, high, low));
    if constexpr (kRows > 1) store(2 * p + 1, v, hn::ConcatUpperUpper(df, high, low));
  });
}

template <class Panel, size_t kRows>
HWY_INLINE void PassOfFew(const ProductArgs& args, const uint8_t* panel, const PanelRange& range, size_t tile,
                          size_t row, size_t valid) {
  using Pairs = PairsOfRows<Panel, kRows>;
  VF32 acc[kSquares * Pairs::kPairs];
  if (range.unit == 0) {
    Unroll<kSquares * Pairs::kPairs>([&](auto i) MOONLIT_INLINE_LAMBDA { acc[i] = hn::Zero(DF32()); });
  } else {
    LoadSquares<kRows>(range.sums, acc);
  }
  RowSet rows = SelectRows(args.a8, row);
  rows.Skip(range.unit);
  for (size_t unit = range.unit; unit < range.unit_end; ++unit, rows.Skip(1)) {
    Pairs pairs;
    LoadPairs(rows, &pairs);
    Unroll<kSquares>([&](auto c) MOONLIT_INLINE_LAMBDA {
      AddSquares(panel + c * SquareUnit<Panel>::kBytes, pairs, acc + c * Pairs::kPairs);
    });
    panel += kSquares * SquareUnit<Panel>::kBytes;
  }
  StoreSquares<kRows>(acc, [&](size_t r, size_t v, VF32 sum)
                               MOONLIT_INLINE_LAMBDA { StoreOfPanel(args, range, tile, row, r, v, valid, sum); });
}

// Four rows at a time: their activations, four squares' sums and one square's weights fill the registers.
template <class Panel, size_t kRows>
HWY_NOINLINE void PassOverPanel(const ProductArgs& args, const uint8_t* panel, const PanelRange& range, size_t tile,
                                size_t row, size_t valid) {
  if constexpr (kRows <= 4) return PassOfFew<Panel, kRows>(args, panel, range, tile, row, valid);
  PanelRange of_four = range;
  for (size_t r = 0; r < kRows; r += 4) {
    PassOfFew<Panel, 4>(args, panel, of_four, tile, row + r, valid > r ? valid - r : 0);
    of_four.sums += 4 * kTile;
  }
}

template <class Panel>
constexpr size_t PanelBytes() {
  return kPanelK / kA8Group * kSquares * SquareUnit<Panel>::kBytes;
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
