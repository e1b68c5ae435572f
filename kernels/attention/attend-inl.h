// SPDX-License-Identifier: Apache-2.0
// The walk over segments and tiles. In a tile all rows do the same step together (products with K, softmax, products
// with V), so a tile of K, then one of V, stays in the first cache level while the row blocks pass over it.
#pragma once

#include "kernels/attention/bytes-inl.h"
#include "kernels/attention/fold-inl.h"
#include "kernels/attention/scores-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// visit(Format()): how the variant multiplies a tile of this type; `widened`: as the f32 that it became in scratch.
template <class Visit>
HWY_INLINE void WithFormat(CacheType type, bool widened, Visit&& visit) {
  if (widened) return visit(F32Format());
  switch (type) {
    case CacheType::kF32:
      return visit(F32Format());
    case CacheType::kF16:
      return visit(F16Format());
    case CacheType::kBF16:
      if constexpr (kHasBF16Dot) {
        return visit(BF16DotFormat());
      } else {
        return visit(WidenedBF16Format());
      }
    case CacheType::kQ8_0:
      return visit(Q8Format());
    case CacheType::kQ4_0:
      return visit(Q4Format());
  }
}

// A 16-bit tile as f32: the same products are then added in the same order.
void WidenTile(CacheType type, const uint8_t* from, size_t rows, size_t columns, uint8_t* to) {
  if (type == CacheType::kF16) {
    WidenLanes<F16Format>(from, rows, columns, to);
  } else {
    WidenLanes<WidenedBF16Format>(from, rows, columns, to);
  }
}

// A call's constants.
struct Call {
  const AttentionArgs* args;
  ScoreRule rule;
  bool widen_keys;  // 16-bit tiles become f32 in scratch
  bool widen_values;
  size_t key_lanes;  // lanes of K a token, after widening
  size_t value_dims;
  Workspace work;
};

bool IsWidened(const AttentionArgs& args, CacheType type) {
  return args.rows >= kRowsToWiden && IsSixteenBit(type) && ArithmeticOf(type) == Arithmetic::kFloat;
}

// Byte tiles ask for about three eighths of the next tile's lines in the products with K and in those with V, and for a quarter
// in the softmax. Float tiles ask for K in the products with K, which have the longest loops: there what was fetched first is used
// first; for V in the softmax and in the products with V.
LinesShare ShareLines(const Call& call) {
  const PageLayout& layout = *call.args->layout;
  LinesShare share;
  share.keys = kTile / kPageGroup * KeyGroupBytes(layout);
  share.key_scales = IsQuantized(layout.key_type) ? kTile * (PaddedKeyDim(layout) / kScaleGroup) * 2 : 0;
  share.values = kTile / ElementsInLane(layout.value_type) * ValueStepBytes(layout);
  share.value_scales = IsQuantized(layout.value_type) ? kTile * (call.value_dims / kScaleGroup) * 2 : 0;
  const size_t lines = (share.keys + share.key_scales + share.values + share.value_scales) / 64;
  const size_t rows = call.args->rows;
  const size_t key_steps = kTileVecs * CeilDiv(layout.key_dim, kScaleGroup);
  const size_t value_steps = CeilDiv(call.value_dims, 2 * kLanes) * (kTile / ElementsInLane(layout.value_type));
  share.per_key_step = CeilDiv(lines * 3, 8 * key_steps);
  const size_t listed = IsQuantized(layout.key_type) ? lines : lines - share.keys / 64;
  share.per_row_part = CeilDiv(listed, 4 * rows * kSoftmaxParts);
  share.per_probabilities = CeilDiv(lines, 5 * rows * CeilDiv(call.value_dims, kScaleGroup));
  share.per_value_step = CeilDiv(lines * 3, 8 * value_steps);
  return share;
}

Call StartCall(const AttentionArgs& args) {
  const PageLayout& layout = *args.layout;
  Call call;
  call.args = &args;
  call.rule = MakeScoreRule(args);
  call.widen_keys = IsWidened(args, layout.key_type);
  call.widen_values = IsWidened(args, layout.value_type);
  call.key_lanes = PaddedKeyDim(layout) / ElementsInLane(layout.key_type) * (call.widen_keys ? 2 : 1);
  call.value_dims = PaddedValueDim(layout);
  CutWorkspace(layout, args.scratch, &call.work);
  call.work.share = ShareLines(call);
  WithFormat(layout.key_type, call.widen_keys,
             [&](auto format) MOONLIT_INLINE_LAMBDA { PackQueries(format, args, call.key_lanes, call.work); });
  return call;
}

// Where the tile's slots lie. Only called for tiles that some row sees.
struct TilePointers {
  const uint8_t* keys;
  const uint8_t* key_scales;
  const uint8_t* values;
  const uint8_t* value_scales;  // of the page, not of the tile
};

TilePointers FindTile(const AttentionArgs& args, size_t slot) {
  const PageLayout& layout = *args.layout;
  const uint8_t* part = args.pages[slot / layout.page_tokens] + args.part_offset;
  const size_t inside = slot % layout.page_tokens;
  TilePointers tile;
  tile.keys = part + layout.key_offset + inside / kPageGroup * KeyGroupBytes(layout);
  tile.key_scales = part + layout.key_scale_offset + inside * (PaddedKeyDim(layout) / kScaleGroup) * 2;
  tile.values = part + layout.value_offset + inside / ElementsInLane(layout.value_type) * ValueStepBytes(layout);
  tile.value_scales = part + layout.value_scale_offset;
  return tile;
}

// Pointers of the tile that will probably come next, for prefetching; null when there is none.
TilePointers PeekTile(const AttentionArgs& args, size_t slot, size_t end) {
  if (slot >= end || args.pages[slot / args.layout->page_tokens] == nullptr)
    return {nullptr, nullptr, nullptr, nullptr};
  return FindTile(args, slot);
}

// `slot`: of the next tile.
void StartLinesAhead(size_t slot, const TilePointers& next, Call& call) {
  const PageLayout& layout = *call.args->layout;
  Workspace& work = call.work;
  LinesAhead& ahead = work.ahead;
  const LinesShare& share = work.share;
  ahead.at = ahead.end = nullptr;
  ahead.ranges = 0;
  work.keys_ahead = nullptr;
  if (next.keys == nullptr) return;
  if (layout.page_tokens == kTile) {
    AddLines(next.value_scales, share.value_scales, &ahead);
  } else {
    for (size_t b = 0; b * kTile * 2 < share.value_scales; ++b) {
      const uint8_t* scales = next.value_scales + (b * layout.page_tokens + slot % layout.page_tokens) * 2;
      for (size_t i = 0; i < kTile * 2; i += 64) __builtin_prefetch(scales + i, 0, 2);
    }
  }
  AddLines(next.values, share.values, &ahead);
  AddLines(next.key_scales, share.key_scales, &ahead);
  if (IsQuantized(layout.key_type)) {
    AddLines(next.keys, share.keys, &ahead);
  } else if (!call.widen_keys) {
    work.keys_ahead = next.keys;
  }
  OpenLines(&ahead);
}

void MultiplyKeys(Call& call, const TileView& view, const TilePointers& tile) {
  const AttentionArgs& args = *call.args;
  Workspace& work = call.work;
  const CacheType type = args.layout->key_type;
  TilePointers from = tile;
  if (call.widen_keys) {
    // [kTile / 16][lanes][16] pairs: the groups follow each other, so one pass widens all.
    WidenTile(type, tile.keys, kTile / kPageGroup * (call.key_lanes / 2), kPageGroup, work.wide_keys);
    from.keys = work.wide_keys;
  }
  WithFormat(type, call.widen_keys, [&](auto format) MOONLIT_INLINE_LAMBDA {
    using Format = decltype(format);
    if constexpr (Format::kIsBytes) {
      ScoreByteTile<Format>(args, view, from.keys, from.key_scales, work);
    } else {
      ScoreTile<Format>(args, view, from.keys, call.key_lanes, work);
    }
  });
}

void MultiplyValues(Call& call, const TileView& view, const TilePointers& tile, float* triples) {
  const AttentionArgs& args = *call.args;
  Workspace& work = call.work;
  const CacheType type = args.layout->value_type;
  const size_t dims = call.value_dims;
  const uint8_t* values = tile.values;
  if (call.widen_values) {
    WidenTile(type, tile.values, kTile / 2, dims, work.wide_values);
    values = work.wide_values;
  }
  WithFormat(type, call.widen_values, [&](auto format) MOONLIT_INLINE_LAMBDA {
    using Format = decltype(format);
    if constexpr (Format::kIsBytes) {
      AddByteTile<Format>(args, view, values, tile.value_scales, work, triples);
    } else {
      AddValueTile<Format>(args, view, values, dims, Format::Probabilities(work), &work.ahead, triples);
    }
  });
  PrefetchAllLines(&work.ahead);
}

// The slots that any row sees, and those that all see; not counting the first sink_slots.
struct Visible {
  SlotRange any;
  SlotRange all;
  size_t sinks;  // the first slots, which all rows see up to their `last`
};

Visible VisibleSlots(const AttentionArgs& args) {
  int64_t first = INT64_MAX, last = 0, latest_first = 0, earliest_last = INT64_MAX;
  for (size_t r = 0; r < args.rows; ++r) {
    latest_first = args.first[r] > latest_first ? args.first[r] : latest_first;
    earliest_last = args.last[r] < earliest_last ? args.last[r] : earliest_last;
    if (args.first[r] >= args.last[r] && args.sink_slots <= 0) continue;
    first = args.first[r] < first ? args.first[r] : first;
    last = args.last[r] > last ? args.last[r] : last;
  }
  if (last <= 0 || (first >= last && args.sink_slots <= 0)) return {{0, 0}, {0, 0}, 0};
  const size_t end = static_cast<size_t>(last);
  const size_t sinks = args.sink_slots < 0 ? 0 : static_cast<size_t>(args.sink_slots);
  const size_t begin = first < 0 ? 0 : static_cast<size_t>(first);
  return {{begin < end ? begin : end, end},
          {static_cast<size_t>(latest_first), static_cast<size_t>(earliest_last < 0 ? 0 : earliest_last)},
          sinks < end ? sinks : end};
}

// The first tile at `slot` or later that some row may see.
size_t NextTile(const Visible& visible, size_t slot) {
  const size_t first = visible.any.first / kTile * kTile;
  return slot < visible.sinks || slot >= first ? slot : first;
}

void RunSegment(Call& call, const Visible& visible, size_t segment, float* triples) {
  const AttentionArgs& args = *call.args;
  const DF32 df;
  const size_t stride = AttentionTripleFloats(*args.layout);
  for (size_t r = 0; r < args.rows; ++r) {
    float* triple = triples + r * stride;
    triple[0] = kNegInf;
    memset(triple + 1, 0, (stride - 1) * sizeof(float));
  }
  memset(call.work.lane_sums, 0, args.rows * kLanes * sizeof(float));
  const size_t begin = segment * kAttentionSegment;
  const size_t end = begin + kAttentionSegment < visible.any.last ? begin + kAttentionSegment : visible.any.last;
  TileView view;
  view.whole = false;
  TilePointers next = {};
  size_t next_slot = 0;
  for (size_t slot = NextTile(visible, begin); slot < end; slot = NextTile(visible, slot + kTile)) {
    if (args.pages[slot / args.layout->page_tokens] == nullptr) continue;
    LookAtTile(args, visible.all, slot, &view);
    if (!view.any) continue;
    const TilePointers tile = next_slot == slot && next.keys != nullptr ? next : FindTile(args, slot);
    next_slot = slot + kTile;
    next = PeekTile(args, next_slot, visible.any.last);
    StartLinesAhead(next_slot, next, call);
    MultiplyKeys(call, view, tile);
    for (size_t r = 0; r < args.rows; ++r) {
      if (Sees(view, r)) SoftmaxRow(call.rule, args, view, r, call.value_dims, call.work, triples + r * stride);
    }
    MultiplyValues(call, view, tile, triples);
  }
  for (size_t r = 0; r < args.rows; ++r) {
    triples[r * stride + 1] = hn::ReduceSum(df, hn::Load(df, call.work.lane_sums + r * kLanes));
  }
}

size_t ScratchBytes(const PageLayout& layout) {
  Workspace work;
  return CutWorkspace(layout, nullptr, &work);
}

void AttendSegment(const AttentionArgs& args, size_t segment, float* triples) {
  Call call = StartCall(args);
  RunSegment(call, VisibleSlots(args), segment, triples);
}

void Attend(const AttentionArgs& args) {
  Call call = StartCall(args);
  const Visible visible = VisibleSlots(args);
  const size_t value_dim = args.layout->value_dim;
  const size_t stride = AttentionTripleFloats(*args.layout);
  float* triples = call.work.triples;
  RunningRow rows[kAttentionMaxRows];
  for (size_t r = 0; r < args.rows; ++r) rows[r] = {kNegInf, 0.0f};
  for (size_t slot = NextTile(visible, 0); slot < visible.any.last;) {
    const size_t segment = slot / kAttentionSegment;
    RunSegment(call, visible, segment, triples);
    for (size_t r = 0; r < args.rows; ++r) FoldTriple(triples + r * stride, value_dim, &rows[r], args.out[r]);
    slot = NextTile(visible, (segment + 1) * kAttentionSegment);
  }
  for (size_t r = 0; r < args.rows; ++r) {
    FinishRow(rows[r], value_dim, args.sinks != nullptr ? args.sinks[r] : kNegInf, args.out[r]);
  }
}

void Fold(const PageLayout& layout, const float* triple, float* running, float* out) {
  RunningRow row = {running[0], running[1]};
  FoldTriple(triple, layout.value_dim, &row, out);
  running[0] = row.max;
  running[1] = row.sum;
}

void Finish(const PageLayout& layout, const float* running, float sink, float* out) {
  FinishRow({running[0], running[1]}, layout.value_dim, sink, out);
}

void Merge(const PageLayout& layout, const float* triples, size_t segment_stride, size_t count, float sink,
           float* out) {
  RunningRow row = {kNegInf, 0.0f};
  for (size_t s = 0; s < count; ++s) FoldTriple(triples + s * segment_stride, layout.value_dim, &row, out);
  FinishRow(row, layout.value_dim, sink, out);
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
