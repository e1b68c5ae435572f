// SPDX-License-Identifier: Apache-2.0
// Panels whose passes go vector by vector of outputs, as the dot products of the variant do.
#pragma once

#include "kernels/matmul/panel-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// One unit of 32 k and one vector of outputs: eight vectors of bytes, then scales and minima. A panel is all units of the first
// vector, then of the second.
template <class Panel>
struct PanelUnit {
  static constexpr size_t kVector = kLanes * sizeof(float);
  static constexpr size_t kScale = 8 * kVector;
  static constexpr size_t kMin = kScale + Panel::kParts * kVector;
  static constexpr size_t kBytes = kMin + (Panel::kHasMin ? Panel::kParts * kVector : 0);
};

template <class Panel>
constexpr size_t PanelBytesOfVector() {
  return kPanelK / kA8Group * PanelUnit<Panel>::kBytes;
}

template <class Panel>
constexpr size_t PanelBytes() {
  return kVectors * PanelBytesOfVector<Panel>();
}

#if MOONLIT_HAS_DOT_BY_OUTPUT
// From steps of four k for each output to sixteen k of one output (DotByOutput): two transposed squares of words.
HWY_INLINE void ArrangeForPanel(VU8 (&w)[8]) {
  VU8 by_output[8];
  Unroll<2>([&](auto half) MOONLIT_INLINE_LAMBDA {
    VU32 words[4];
    Unroll<4>([&](auto s) MOONLIT_INLINE_LAMBDA { words[s] = hn::BitCast(DU32(), w[4 * half + s]); });
    TransposeSquare(&words);
    Unroll<4>([&](auto n) MOONLIT_INLINE_LAMBDA { by_output[2 * n + half] = hn::BitCast(DU8(), words[n]); });
  });
  Unroll<8>([&](auto i) MOONLIT_INLINE_LAMBDA { w[i] = by_output[i]; });
}
#else
HWY_INLINE void ArrangeForPanel(VU8 (&)[8]) {}
#endif

template <class Codec>
HWY_INLINE void UnpackBlockOfPanel(const uint8_t* tile, size_t block, size_t v, uint8_t* panel) {
  using L = Layout<Codec>;
  using U = PanelUnit<InPanel<Codec>>;
  constexpr size_t kScales = Codec::kChunks * Codec::kUnits * Codec::kParts;
  const uint8_t* small = tile + L::Small(block);
  const uint8_t* big = tile + L::Big(block);
  const DF32 df;
  VF32 scale[kScales];
  VF32 min[kScales];
  LoadScales<Codec>(small, v, scale, min);
  Unroll<kScales>([&](auto i) MOONLIT_INLINE_LAMBDA {
    uint8_t* unit = panel + i / Codec::kParts * U::kBytes;
    const size_t part = i % Codec::kParts * U::kVector;
    hn::StoreU(scale[i], df, reinterpret_cast<float*>(unit + U::kScale + part));
    if constexpr (Codec::kHasMin) hn::StoreU(min[i], df, reinterpret_cast<float*>(unit + U::kMin + part));
  });
  for (size_t chunk = 0; chunk < Codec::kChunks; ++chunk) {
    Unroll<Codec::kUnits>([&](auto u) MOONLIT_INLINE_LAMBDA {
      VU8 w[8];
      LoadWeights<Codec, decltype(u)::value>(small, big, chunk, v, w);
      PrefetchAhead<Codec, kMaxRows>(big, chunk * Codec::kUnits + u);
      uint8_t* unit = panel + (chunk * Codec::kUnits + u) * U::kBytes;
      ShiftForPanel<Codec>(w);
      ArrangeForPanel(w);
      Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA { hn::StoreU(w[s], DU8(), unit + s * U::kVector); });
    });
  }
}

template <class Codec>
HWY_NOINLINE void UnpackPanel(const uint8_t* tile, size_t block, size_t block_end, uint8_t* panel) {
  for (; block < block_end; ++block) {
    Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA {
      UnpackBlockOfPanel<Codec>(tile, block, v, panel + v * PanelBytesOfVector<InPanel<Codec>>());
    });
    panel += Codec::kBlock / kA8Group * PanelUnit<InPanel<Codec>>::kBytes;
  }
}

template <class Panel, size_t kRows>
HWY_INLINE void AddPanelUnit(const uint8_t* unit, const RowSet& rows, VF32 (&acc)[kRows]) {
  using U = PanelUnit<Panel>;
  constexpr size_t kTurns = kRows < kMaxTurns ? kRows : kMaxTurns;
  VU8 w[8];
  VF32 scale[Panel::kParts];
  VF32 min[Panel::kParts];
  Unroll<Panel::kParts>([&](auto p) MOONLIT_INLINE_LAMBDA {
    scale[p] = hn::LoadU(DF32(), reinterpret_cast<const float*>(unit + U::kScale + p * U::kVector));
    if constexpr (Panel::kHasMin) {
      min[p] = hn::LoadU(DF32(), reinterpret_cast<const float*>(unit + U::kMin + p * U::kVector));
    }
  });
#if MOONLIT_HAS_LOAD_AND_DOT
  if constexpr (kRows >= 4) {
    Unroll<kRows / 4>([&](auto r) MOONLIT_INLINE_LAMBDA {
      AddUnitOfFourRows<Panel, 4 * decltype(r)::value, r == 0>(rows, unit, w, scale, min, acc);
    });
    return;
  }
#endif
  Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA { w[s] = hn::LoadU(DU8(), unit + s * U::kVector); });
  Unroll<kRows / kTurns>([&](auto r) MOONLIT_INLINE_LAMBDA {
    AddUnit<Panel, decltype(r)::value * kTurns, kTurns>(rows, w, scale, min, acc);
  });
}

// One vector of outputs at a time: the accumulators of more would not fit the registers of every variant beside the weights.
template <class Panel, size_t kRows>
HWY_NOINLINE void PassOverPanel(const ProductArgs& args, const uint8_t* panel, const PanelRange& range, size_t tile,
                                size_t row, size_t valid) {
  const DF32 df;
  for (size_t v = 0; v < kVectors; ++v) {
    const uint8_t* at = panel + v * PanelBytesOfVector<Panel>();
    RowSet rows = SelectRows(args.a8, row);
    rows.Skip(range.unit);
    VF32 acc[kRows];
    if (range.unit == 0) {
      Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA { acc[r] = hn::Zero(df); });
    } else {
      Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA { acc[r] = hn::LoadU(df, range.sums + r * kTile + v * kLanes); });
    }
    for (size_t unit = range.unit; unit < range.unit_end; ++unit) {
      AddPanelUnit<Panel, kRows>(at, rows, acc);
      at += PanelUnit<Panel>::kBytes;
      rows.Skip(1);
    }
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA { StoreOfPanel(args, range, tile, row, r, v, valid, acc[r]); });
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
