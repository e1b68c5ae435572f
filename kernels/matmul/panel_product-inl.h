// SPDX-License-Identifier: Apache-2.0
// Products of any number of rows. Where a pass holds few rows, or a codec has much to unpack, many rows go by panels: a tile's
// weights for a part of K are unpacked once into the first-level cache, scales and all, and used for every pass. Between
// panels the accumulators lie in memory, as floats, which loses nothing.
#pragma once

#include "kernels/matmul/bytes_product-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// Rows whose accumulators lie in memory, and k of a panel: the panel, the activations of one pass over it and the accumulators
// that they touch fit 32 KiB.
constexpr size_t kBlockRows = 128;
constexpr size_t kPanelK = 512;

// The fewest rows that go by panels. Measured on Zen 4 with 512 rows: x86_avx2 (4 rows a pass) 3% faster for Q4_0, 8% for Q4_K,
// 27% for Q5_K. x86_avx512_bf16 (16 rows a pass): 11% for Q5_K and 3% for Q6_K, but 7% slower for Q4_0, whose unpacking is a
// dozen instructions beside two hundred.
template <class Codec>
constexpr size_t PanelRows() {
  constexpr bool kTwoFields = sizeof(Codec::kBig) > sizeof(Field);
  return kMaxRows < 16 ? 4 * kMaxRows : kTwoFields ? 8 * kMaxRows : SIZE_MAX;
}

// One unit of 32 k and one vector of outputs: eight vectors of bytes, then scales and minima.
template <class Codec>
struct PanelUnit {
  static constexpr size_t kVector = kLanes * sizeof(float);
  static constexpr size_t kScale = 8 * kVector;
  static constexpr size_t kMin = kScale + Codec::kParts * kVector;
  static constexpr size_t kBytes = kMin + (Codec::kHasMin ? Codec::kParts * kVector : 0);
};

template <class Codec>
constexpr size_t PanelBlocks() {
  return kPanelK < Codec::kBlock ? 1 : kPanelK / Codec::kBlock;
}

template <class Codec>
constexpr size_t PanelBytes() {
  return PanelBlocks<Codec>() * (Codec::kBlock / kA8Group) * kVectors * PanelUnit<Codec>::kBytes;
}

template <class Codec>
HWY_INLINE void UnpackBlockOfPanel(const uint8_t* tile, size_t block, size_t v, uint8_t* panel) {
  using L = Layout<Codec>;
  using U = PanelUnit<Codec>;
  constexpr size_t kScales = Codec::kChunks * Codec::kUnits * Codec::kParts;
  const uint8_t* small = tile + L::Small(block);
  const uint8_t* big = tile + L::Big(block);
  const DF32 df;
  VF32 scale[kScales];
  VF32 min[kScales];
  Codec::Scales(small, v, scale, min);
  Unroll<kScales>([&](auto i) MOONLIT_INLINE_LAMBDA {
    uint8_t* unit = panel + (i / Codec::kParts * kVectors + v) * U::kBytes;
    const size_t part = i % Codec::kParts * U::kVector;
    hn::StoreU(scale[i], df, reinterpret_cast<float*>(unit + U::kScale + part));
    if constexpr (Codec::kHasMin) hn::StoreU(min[i], df, reinterpret_cast<float*>(unit + U::kMin + part));
  });
  for (size_t chunk = 0; chunk < Codec::kChunks; ++chunk) {
    Unroll<Codec::kUnits>([&](auto u) MOONLIT_INLINE_LAMBDA {
      VU8 w[8];
      LoadWeights<Codec, decltype(u)::value>(small, big, chunk, v, w);
      PrefetchAhead<Codec, kMaxRows>(big, chunk * Codec::kUnits + u);
      uint8_t* unit = panel + ((chunk * Codec::kUnits + u) * kVectors + v) * U::kBytes;
      Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA { hn::StoreU(w[s], DU8(), unit + s * U::kVector); });
    });
  }
}

template <class Codec>
HWY_NOINLINE void UnpackPanel(const uint8_t* tile, size_t block, size_t block_end, uint8_t* panel) {
  for (; block < block_end; ++block) {
    Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA { UnpackBlockOfPanel<Codec>(tile, block, v, panel); });
    panel += Codec::kBlock / kA8Group * kVectors * PanelUnit<Codec>::kBytes;
  }
}

template <class Codec, size_t kRows>
HWY_INLINE void AddPanelUnit(const uint8_t* unit, const RowSet& rows, VF32 (&acc)[kVectors * kRows]) {
  using U = PanelUnit<Codec>;
  constexpr size_t kTurns = kRows < kMaxTurns ? kRows : kMaxTurns;
  Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA {
    const uint8_t* of_vector = unit + v * U::kBytes;
    VU8 w[8];
    VF32 scale[Codec::kParts];
    VF32 min[Codec::kParts];
    Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA { w[s] = hn::LoadU(DU8(), of_vector + s * U::kVector); });
    Unroll<Codec::kParts>([&](auto p) MOONLIT_INLINE_LAMBDA {
      scale[p] = hn::LoadU(DF32(), reinterpret_cast<const float*>(of_vector + U::kScale + p * U::kVector));
      if constexpr (Codec::kHasMin) {
        min[p] = hn::LoadU(DF32(), reinterpret_cast<const float*>(of_vector + U::kMin + p * U::kVector));
      }
    });
    Unroll<kRows / kTurns>([&](auto r) MOONLIT_INLINE_LAMBDA {
      AddUnit<Codec, decltype(r)::value * kTurns, kTurns>(rows, w, scale, min, acc + v * kRows);
    });
  });
}

// Where a pass stands: units [unit, unit_end) of K, and the accumulators of its first row, kTile floats a row. They are begun
// with zeros at the first unit, and stored as outputs after the last.
struct PanelRange {
  size_t unit, unit_end;
  size_t units;  // of the whole row
  float* sums;
};

template <class Codec, size_t kRows>
HWY_NOINLINE void PassOverPanel(const ProductArgs& args, const uint8_t* panel, const PanelRange& range, size_t tile,
                                size_t row, size_t valid) {
  const DF32 df;
  RowSet rows = SelectRows(args.a8, row);
  rows.Skip(range.unit);
  VF32 acc[kVectors * kRows];
  const bool first = range.unit == 0;
  ForEachSum<kRows>(acc, [&](auto v, auto r, VF32& a) MOONLIT_INLINE_LAMBDA {
    a = first ? hn::Zero(df) : hn::LoadU(df, range.sums + r * kTile + v * kLanes);
  });
  for (size_t unit = range.unit; unit < range.unit_end; ++unit) {
    AddPanelUnit<Codec, kRows>(panel, rows, acc);
    panel += kVectors * PanelUnit<Codec>::kBytes;
    rows.Skip(1);
  }
  if (range.unit_end == range.units) {
    StoreSums<kRows>(args, tile, row, valid, acc);
    return;
  }
  ForEachSum<kRows>(acc, [&](auto v, auto r, VF32& a)
                             MOONLIT_INLINE_LAMBDA { hn::StoreU(a, df, range.sums + r * kTile + v * kLanes); });
}

// Rows [row, row_end) of one tile, at most kBlockRows.
template <class Codec>
HWY_INLINE void MultiplyByPanels(const ProductArgs& args, size_t tile, size_t row, size_t row_end) {
  constexpr size_t kUnitsOfBlock = Codec::kBlock / kA8Group;
  HWY_ALIGN uint8_t panel[PanelBytes<Codec>()];
  HWY_ALIGN float sums[(kBlockRows + kMaxRows) * kTile];  // a last pass may be wider than the rows that are left
  const size_t blocks = args.k / Codec::kBlock;
  for (size_t block = 0; block < blocks; block += PanelBlocks<Codec>()) {
    const size_t block_end = block + PanelBlocks<Codec>() < blocks ? block + PanelBlocks<Codec>() : blocks;
    UnpackPanel<Codec>(args.weights + tile * TileBytes<Codec>(args.k), block, block_end, panel);
    PanelRange range = {block * kUnitsOfBlock, block_end * kUnitsOfBlock, blocks * kUnitsOfBlock, sums};
    ForEachPass(args.a8, row, row_end, [&](size_t at, size_t valid, auto pass) MOONLIT_INLINE_LAMBDA {
      range.sums = sums + (at - row) * kTile;
      PassOverPanel<Codec, decltype(pass)::value>(args, panel, range, tile, at, valid);
    });
  }
}

template <class Codec>
void Multiply(const ProductArgs& args) {
  for (size_t row = 0; row < args.rows; row += kBlockRows) {
    const size_t row_end = row + kBlockRows < args.rows ? row + kBlockRows : args.rows;
    for (size_t tile = args.tile_begin; tile < args.tile_end; ++tile) {
      if constexpr (PanelRows<Codec>() <= kBlockRows) {
        if (row_end - row >= PanelRows<Codec>()) {
          MultiplyByPanels<Codec>(args, tile, row, row_end);
          continue;
        }
      }
      ForEachPass(args.a8, row, row_end, [&](size_t at, size_t valid, auto pass) MOONLIT_INLINE_LAMBDA {
        ProductOf<Codec, decltype(pass)::value>(args, tile, at, valid);
      });
    }
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
