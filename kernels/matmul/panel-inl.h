// SPDX-License-Identifier: Apache-2.0
// What every kind of panel has in common. A panel is a tile's weights for a part of K, unpacked into the first-level cache for many
// rows, scales and all. There are two kinds: vector_panel-inl.h and smmla_panel-inl.h. Each has
//
//   PanelBytes<Codec>()                                            room for one
//   UnpackPanel<Codec>(tile, block, block_end, panel)
//   PassOverPanel<Codec, kRows>(args, panel, range, tile, row, valid)   kRows rows from `row` on, `valid` of which exist
#pragma once

#include "kernels/matmul/bytes_product-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// Rows whose accumulators lie in memory, and k of a panel: the panel, the activations of one pass over it and the accumulators
// that they touch fit 32 KiB.
constexpr size_t kBlockRows = 128;
constexpr size_t kPanelK = 512;

// What a panel holds. Where dot products take signed bytes, an offset is taken off when the panel is unpacked, not off every sum.
template <class Codec>
struct InPanel : Codec {
  static constexpr bool kShifted = HWY_TARGET_IS_NEON && Codec::kOffset != 0;
  static constexpr bool kSigned = Codec::kSigned || kShifted;
  static constexpr int kOffset = kShifted ? 0 : Codec::kOffset;
  static constexpr int kBound = kShifted && Codec::kOffset > Codec::kBound / 2 ? Codec::kOffset : Codec::kBound;
};

template <class Codec>
HWY_INLINE void ShiftForPanel(VU8 (&w)[8]) {
  if constexpr (InPanel<Codec>::kShifted) {
    Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA { w[s] = hn::Sub(w[s], hn::Set(DU8(), Codec::kOffset)); });
  }
}

template <class Codec>
constexpr size_t PanelBlocks() {
  return kPanelK < Codec::kBlock ? 1 : kPanelK / Codec::kBlock;
}

// Where a pass stands: units [unit, unit_end) of K, and the accumulators of its first row, kTile floats a row. They are begun with
// zeros at the first unit, and stored as outputs after the last.
struct PanelRange {
  size_t unit, unit_end;
  size_t units;  // of the whole row
  float* sums;
};

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
