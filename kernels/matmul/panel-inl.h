// SPDX-License-Identifier: Apache-2.0
// What every kind of panel has in common. A panel is a tile's weights for a part of K, unpacked into the first-level cache for many
// rows, scales and all. There are two kinds: vector_panel-inl.h and smmla_panel-inl.h. Each has
//
//   PanelBytes<InPanel<Codec>>()                                   room for one
//   UnpackPanel<Codec>(tile, block, block_end, panel)
//   PassOverPanel<InPanel<Codec>, kRows>(args, panel, range, tile, row, valid)   kRows rows from `row` on, `valid` of which exist
#pragma once

#include "kernels/matmul/bytes_product-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// Rows whose accumulators lie in memory, and k of a panel: the panel, the activations of one pass over it and the accumulators
// that they touch fit 32 KiB.
constexpr size_t kBlockRows = 128;
constexpr size_t kPanelK = 512;

// What a pass over a panel has to know of its weights, named as in a codec. Codecs that agree in it share the code of passes.
template <size_t kPartsOf, bool kHasMinOf, bool kSignedOf, int kBoundOf, int kOffsetOf>
struct PanelOf {
  static constexpr size_t kParts = kPartsOf;
  static constexpr bool kHasMin = kHasMinOf, kSigned = kSignedOf;
  static constexpr int kBound = kBoundOf, kOffset = kOffsetOf;
};

// How dot products take a codec's weights best: signed ones without an offset, or unsigned ones all with the same. Where sums
// pass through 16 bits a smaller bound is worth more, and weights stay as they are.
template <class Codec>
constexpr auto PanelOfCodec() {
  constexpr size_t kParts = Codec::kParts;
  constexpr bool kHasMin = Codec::kHasMin;
  constexpr int kBound = Codec::kBound, kOffset = Codec::kOffset;
  static_assert(!kHasMin || (kOffset == 0 && !Codec::kSigned));
  static_assert(kPanelK % Codec::kBlock == 0, "a panel is whole blocks");
  if constexpr (kBiasSignedWeights) {
    constexpr int kBias = kHasMin ? 0 : 128;
    return PanelOf<kParts, kHasMin, false, 255, kBias>();
  } else if constexpr (HWY_ARCH_X86 && !MOONLIT_EMULATED) {
    return PanelOf<kParts, kHasMin, Codec::kSigned, SameBound(kBound, Codec::kSigned, kParts), kOffset>();
  } else {
    return PanelOf<kParts, kHasMin, true, SameBound(kOffset > kBound / 2 ? kOffset : kBound, true, kParts), 0>();
  }
}
template <class Codec>
using InPanel = decltype(PanelOfCodec<Codec>());
using LargestPanel = PanelOf<2, true, false, 255, 0>;

template <class Codec>
HWY_INLINE void ShiftForPanel(VU8 (&w)[8]) {
  constexpr int kShift = OffsetOf<InPanel<Codec>>() - OffsetOf<Codec>();
  if constexpr (kShift != 0) {
    const VU8 shift = hn::Set(DU8(), static_cast<uint8_t>(kShift & 0xFF));
    Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA { w[s] = hn::Add(w[s], shift); });
  }
}

// Where a pass stands: units [unit, unit_end) of K, and the accumulators of its first row, kTile floats a row. They are begun with
// zeros at the first unit, and stored as outputs after the last.
struct PanelRange {
  size_t unit, unit_end;
  size_t units;  // of the whole row
  float* sums;
};

using PanelPass = void (*)(const ProductArgs& args, const uint8_t* panel, const PanelRange& range, size_t tile,
                           size_t row, size_t valid);

// Row `row` + `r`, outputs of vector `v`, after a panel.
HWY_INLINE void StoreOfPanel(const ProductArgs& args, const PanelRange& range, size_t tile, size_t row, size_t r,
                             size_t v, size_t valid, VF32 sum) {
  const size_t n = tile * kTile + v * kLanes;
  if (range.unit_end < range.units) {
    hn::StoreU(sum, DF32(), range.sums + r * kTile + v * kLanes);
  } else if (n < args.n && r < valid) {
    StoreVector(args, row + r, n, sum);
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
