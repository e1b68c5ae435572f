// SPDX-License-Identifier: Apache-2.0
// The walk over segments and tiles. In a tile all rows do the same step together (products with K, softmax, products
// with V), so a tile of K, then one of V, stays in the first cache level while the row blocks pass over it.
#pragma once

#include "kernels/attention/scores-inl.h"
#include "kernels/attention/softmax_tile-inl.h"
#include "kernels/attention/tiles-inl.h"
#include "kernels/attention/values-inl.h"
#include "kernels/attention/visible-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// What is constant for one KV head of a call.
struct Call {
  AttentionArgs args;  // of this head alone
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

// At least one, else the nearest number.
size_t LinesOf(size_t lines, size_t steps) { return lines < steps ? 1 : (lines + steps / 2) / steps; }

// Float tiles ask for three quarters of what they read in the products and for the rest in the softmax. Byte tiles ask for five
// sixteenths in the products with K, for four in the softmax, for four in quantizing the probabilities and for the rest in the
// products with V: those take about equally long, and lines that are asked for too fast are dropped.
LinesShare ShareLines(const Call& call) {
  const PageLayout& layout = *call.args.layout;
  LinesShare share;
  share.keys = kTile / kPageGroup * KeyGroupBytes(layout);
  share.key_scales = IsQuantized(layout.key_type) ? kTile * (PaddedKeyDim(layout) / kScaleGroup) * 2 : 0;
  share.values = kTile / ElementsInLane(layout.value_type) * ValueStepBytes(layout);
  share.value_scales = IsQuantized(layout.value_type) ? kTile * (call.value_dims / kScaleGroup) * 2 : 0;
  const size_t lines = (share.keys + share.key_scales + share.values + share.value_scales) / 64;
  const size_t rows = call.args.rows;
  const size_t key_steps = kTileVecs * CeilDiv(layout.key_dim, kScaleGroup);
  const size_t value_steps = CeilDiv(call.value_dims, 2 * kLanes) * (kTile / ElementsInLane(layout.value_type));
  const size_t groups = CeilDiv(call.value_dims, kScaleGroup);
  share.per_key_step = LinesOf(lines * 5, 16 * key_steps);
  share.per_row_part = LinesOf(lines, 4 * rows * kSoftmaxParts);
  share.per_probabilities = LinesOf(lines, 4 * rows * groups);
  share.per_value_step = LinesOf(lines * 3, 16 * value_steps);
  return share;
}

// Moves on to what belongs to head `head` of those that share the workspace. Scores, probabilities and widened tiles are of
// one head at a time and serve all.
void TakeHead(const PageLayout& layout, size_t rows, size_t head, Workspace* work) {
  const size_t first_row = head * RoundUp(rows, kRowBlock);
  const size_t key_dim = RoundUp(layout.key_dim, kScaleGroup);
  work->q += first_row * key_dim;
  work->q8 += first_row * key_dim;
  work->q8_scale += first_row * (key_dim / kScaleGroup);
  work->q8_start += first_row * (key_dim / kScaleGroup);
  work->lane_sums += first_row * kLanes;
}

AttentionArgs ArgsOfHead(const AttentionArgs& args, size_t head) {
  AttentionArgs one = args;
  one.heads = 1;
  one.part_offset += head * args.layout->part_bytes;
  one.q += head * args.rows;
  if (one.sinks != nullptr) one.sinks += head * args.rows;
  if (one.alibi_slopes != nullptr) one.alibi_slopes += head * args.rows;
  if (one.out != nullptr) one.out += head * args.rows;
  return one;
}

// The type that float products meet.
CacheType WidenedType(CacheType type, bool widened) { return widened ? CacheType::kF32 : type; }

void PackQueries(Call& call) {
  const CacheType type = call.args.layout->key_type;
  switch (ArithmeticOf(type)) {
    case Arithmetic::kBytes:
      return MOONLIT_BYTES_NS::PackByteQueries(call.args, call.work);
    case Arithmetic::kBF16Dot:
      return PackBF16Queries(call.args, call.key_lanes, call.work);
    case Arithmetic::kFloat:
      return MOONLIT_FLOATS_NS::PackFloatQueries(WidenedType(type, call.widen_keys), call.args, call.key_lanes,
                                                 call.work);
  }
}

// calls: [args.heads]
void StartCalls(const AttentionArgs& args, Call* calls) {
  const PageLayout& layout = *args.layout;
  for (size_t head = 0; head < args.heads; ++head) {
    Call& call = calls[head];
    if (head != 0) call = calls[0];
    call.args = ArgsOfHead(args, head);
    if (head == 0) {
      call.rule = MakeScoreRule(args);
      call.widen_keys = IsWidened(args, layout.key_type);
      call.widen_values = IsWidened(args, layout.value_type);
      call.key_lanes = PaddedKeyDim(layout) / ElementsInLane(layout.key_type) * (call.widen_keys ? 2 : 1);
      call.value_dims = PaddedValueDim(layout);
      CutWorkspace(layout, args.scratch, &call.work);
      call.work.share = ShareLines(call);
    } else {
      TakeHead(layout, args.rows, head, &call.work);
    }
    PackQueries(call);
  }
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
  tile.keys = part + inside / kPageGroup * KeyGroupBytes(layout);
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

// `slot`: of the next tile. `second`: the one after it.
void StartLinesAhead(size_t slot, const TilePointers& next, const TilePointers& second, Call& call) {
  const PageLayout& layout = *call.args.layout;
  Workspace& work = call.work;
  LinesAhead& ahead = work.ahead;
  ahead.second = 0;
  const LinesShare& share = work.share;
  ahead.at = ahead.end = nullptr;
  ahead.ranges = 0;
  if (next.keys == nullptr) return;
  ahead.second =
      second.keys == nullptr ? 0 : reinterpret_cast<uintptr_t>(second.keys) - reinterpret_cast<uintptr_t>(next.keys);
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
  // Keys to be widened are read from first to last before anything else.
  if (!call.widen_keys) AddLines(next.keys, share.keys, &ahead);
  OpenLines(&ahead);
}

void MultiplyKeys(Call& call, const TileView& view, const TilePointers& tile) {
  const AttentionArgs& args = call.args;
  Workspace& work = call.work;
  const CacheType type = args.layout->key_type;
  TilePointers from = tile;
  if (call.widen_keys) {
    // [kTile / 16][lanes][16] pairs: the groups follow each other, so one pass widens all.
    MOONLIT_FLOATS_NS::WidenTile(type, tile.keys, kTile / kPageGroup * (call.key_lanes / 2), kPageGroup,
                                 work.wide_keys);
    from.keys = work.wide_keys;
  }
  switch (ArithmeticOf(type)) {
    case Arithmetic::kBytes:
      return MOONLIT_BYTES_NS::ScoreByteTile(args, view, from.keys, from.key_scales, work);
    case Arithmetic::kBF16Dot:
      if constexpr (kHasBF16Dot) ScoreTile<BF16DotFormat>(args, view, from.keys, call.key_lanes, work);
      return;
    case Arithmetic::kFloat:
      return MOONLIT_FLOATS_NS::ScoreFloatTile(WidenedType(type, call.widen_keys), args, view, from.keys,
                                               call.key_lanes, work);
  }
}

void MultiplyValues(Call& call, const TileView& view, const TilePointers& tile, float* triples) {
  const AttentionArgs& args = call.args;
  Workspace& work = call.work;
  const CacheType type = args.layout->value_type;
  const size_t dims = call.value_dims;
  const uint8_t* values = tile.values;
  if (call.widen_values) {
    MOONLIT_FLOATS_NS::WidenTile(type, tile.values, kTile / 2, dims, work.wide_values);
    values = work.wide_values;
  }
  switch (ArithmeticOf(type)) {
    case Arithmetic::kBytes:
      MOONLIT_BYTES_NS::AddByteTile(args, view, values, tile.value_scales, work, triples);
      break;
    case Arithmetic::kBF16Dot:
      if constexpr (kHasBF16Dot) AddValueTile<BF16DotFormat>(args, view, values, dims, work, triples);
      break;
    case Arithmetic::kFloat:
      MOONLIT_FLOATS_NS::AddFloatTile(WidenedType(type, call.widen_values), args, view, values, dims, work, triples);
      break;
  }
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

void StartTriples(const Call& call, float* triples) {
  const size_t stride = AttentionTripleFloats(*call.args.layout);
  for (size_t r = 0; r < call.args.rows; ++r) {
    float* triple = triples + r * stride;
    triple[0] = kNegInf;
    memset(triple + 1, 0, (stride - 1) * sizeof(float));
  }
  memset(call.work.lane_sums, 0, call.args.rows * kLanes * sizeof(float));
}

void RunTile(Call& call, const TileView& view, const TilePointers& tile, float* triples) {
  const size_t stride = AttentionTripleFloats(*call.args.layout);
  MultiplyKeys(call, view, tile);
  for (size_t r = 0; r < call.args.rows; ++r) {
    if (Sees(view, r)) SoftmaxRow(call.rule, call.args, view, r, call.value_dims, call.work, triples + r * stride);
  }
  MultiplyValues(call, view, tile, triples);
}

// triples: [heads, rows, stride]. All heads of a tile follow each other, as they lie in the page.
void RunSegment(Call* calls, size_t heads, const Visible& visible, size_t segment, float* triples) {
  const AttentionArgs& args = calls[0].args;
  const size_t head_floats = args.rows * AttentionTripleFloats(*args.layout);
  for (size_t head = 0; head < heads; ++head) StartTriples(calls[head], triples + head * head_floats);
  const size_t begin = segment * kAttentionSegment;
  const size_t end = begin + kAttentionSegment < visible.any.last ? begin + kAttentionSegment : visible.any.last;
  TileView view;
  view.whole = false;
  for (size_t slot = NextTile(visible, begin); slot < end; slot = NextTile(visible, slot + kTile)) {
    if (args.pages[slot / args.layout->page_tokens] == nullptr) continue;
    LookAtTile(args, visible.all, slot, &view);
    if (!view.any) continue;
    // The tile that comes `steps` after that of `head`.
    const auto ahead_of = [&](size_t head, size_t steps) {
      const size_t place = head + steps;
      return PeekTile(calls[place % heads].args, slot + place / heads * kTile, visible.any.last);
    };
    TilePointers tile = FindTile(args, slot), next = ahead_of(0, 1);
    for (size_t head = 0; head < heads; ++head) {
      const TilePointers second = ahead_of(head, 2);
      StartLinesAhead(slot + (head + 1) / heads * kTile, next, second, calls[head]);
      RunTile(calls[head], view, tile, triples + head * head_floats);
      tile = next;
      next = second;
    }
  }
  const DF32 df;
  for (size_t head = 0; head < heads; ++head) {
    for (size_t r = 0; r < args.rows; ++r) {
      triples[head * head_floats + r * AttentionTripleFloats(*args.layout) + 1] =
          hn::ReduceSum(df, hn::Load(df, calls[head].work.lane_sums + r * kLanes));
    }
  }
}

size_t ScratchBytes(const PageLayout& layout) {
  Workspace work;
  return CutWorkspace(layout, nullptr, &work);
}

void AttendSegment(const AttentionArgs& args, size_t segment, float* triples) {
  Call calls[kAttentionMaxHeads];
  StartCalls(args, calls);
  RunSegment(calls, args.heads, VisibleSlots(args), segment, triples);
}

void Attend(const AttentionArgs& args) {
  Call calls[kAttentionMaxHeads];
  StartCalls(args, calls);
  const Visible visible = VisibleSlots(args);
  const PageLayout& layout = *args.layout;
  const size_t stride = AttentionTripleFloats(layout);
  const size_t rows = args.heads * args.rows;
  float* triples = calls[0].work.triples;
  float running[kAttentionMaxRows][2];
  for (size_t r = 0; r < rows; ++r) running[r][0] = kNegInf, running[r][1] = 0.0f;
  for (size_t slot = NextTile(visible, 0); slot < visible.any.last;) {
    const size_t segment = slot / kAttentionSegment;
    RunSegment(calls, args.heads, visible, segment, triples);
    for (size_t r = 0; r < rows; ++r) MOONLIT_FLOATS_NS::Fold(layout, triples + r * stride, running[r], args.out[r]);
    slot = NextTile(visible, (segment + 1) * kAttentionSegment);
  }
  for (size_t r = 0; r < rows; ++r) {
    MOONLIT_FLOATS_NS::Finish(layout, running[r], args.sinks != nullptr ? args.sinks[r] : kNegInf, args.out[r]);
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
