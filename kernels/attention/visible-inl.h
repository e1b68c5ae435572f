// SPDX-License-Identifier: Apache-2.0
// What a call's walk begins with: its scratch memory, cut into pieces, and which slots of a tile its rows see.
#pragma once

#include "kernels/attention/workspace-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

struct Cutter {
  uint8_t* base;
  size_t used;
};
template <class T>
HWY_INLINE T* Cut(Cutter& cutter, size_t count) {
  T* piece = cutter.base == nullptr ? nullptr : reinterpret_cast<T*>(cutter.base + cutter.used);
  cutter.used += RoundUp(count * sizeof(T), 64);
  return piece;
}

// Fills `work` with pieces of `memory` (null: only counts) and returns the bytes.
size_t CutWorkspace(const PageLayout& layout, void* memory, Workspace* work) {
  constexpr size_t rows = kAttentionMaxRows;
  const size_t key_dim = RoundUp(layout.key_dim, kScaleGroup);
  const size_t value_dim = RoundUp(layout.value_dim, kScaleGroup);
  const size_t d32 = key_dim / kScaleGroup;
  const size_t v32 = value_dim / kScaleGroup;
  Cutter cutter = {static_cast<uint8_t*>(memory), 0};
  work->q_block = 0;
  work->q = Cut<uint32_t>(cutter, rows * key_dim);
  work->q8 = Cut<int8_t>(cutter, rows * key_dim);
  work->q8_scale = Cut<float>(cutter, rows * d32);
  work->q8_start = Cut<int32_t>(cutter, rows * d32);
  work->scores = Cut<float>(cutter, rows * kTile);
  work->p16 = Cut<uint16_t>(cutter, rows * kTile);
  work->p8 = Cut<int8_t>(cutter, kRowBlock * v32 * kTile);
  work->p8_scale = Cut<float>(cutter, kRowBlock * v32);
  work->p8_start = Cut<int32_t>(cutter, kRowBlock * v32);
  work->v8_scale = Cut<float>(cutter, v32 * kTile);
  work->v8_start = Cut<int32_t>(cutter, value_dim);
  work->wide_keys = Cut<uint8_t>(cutter, kTile * key_dim * sizeof(float));
  work->wide_values = Cut<uint8_t>(cutter, kTile * value_dim * sizeof(float));
  work->lane_sums = Cut<float>(cutter, rows * kLanes);
  work->triples = Cut<float>(cutter, rows * AttentionTripleFloats(layout));
  return cutter.used;
}

// Slots [first, last); empty when first >= last.
struct SlotRange {
  size_t first;
  size_t last;
};

HWY_INLINE size_t ClampToTile(int64_t slot, size_t tile_slot) {
  const auto first = static_cast<int64_t>(tile_slot);
  if (slot <= first) return 0;  // compared first: an interval may begin at INT64_MIN
  const int64_t relative = slot - first;
  return relative > static_cast<int64_t>(kTile) ? kTile : static_cast<size_t>(relative);
}

// `shared`: slots that every row sees; most tiles lie inside, and the view of the last one then serves again.
void LookAtTile(const AttentionArgs& args, const SlotRange& shared, size_t slot, TileView* view) {
  view->slot = slot;
  const bool whole = shared.first <= slot && slot + kTile <= shared.last;
  if (whole && view->whole) return;
  view->whole = whole;
  view->any = false;
  const bool sink = static_cast<int64_t>(slot) < args.sink_slots;
  for (size_t r = 0; r < args.rows; ++r) {
    const size_t low = sink ? 0 : ClampToTile(args.first[r], slot);
    const size_t high = ClampToTile(args.last[r], slot);
    const bool visible = low < high;
    view->low[r] = static_cast<uint16_t>(visible ? low : 0);
    view->high[r] = static_cast<uint16_t>(visible ? high : 0);
    view->any |= visible;
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
