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

// A call's constants.
struct Call {
  const AttentionArgs* args;
  Workspace work;
  ScoreRule rule;
  Arithmetic key_arithmetic;
  Arithmetic value_arithmetic;
  bool widen_keys;  // 16-bit tiles become f32 in scratch
  bool widen_values;
  size_t key_lanes;  // lanes of K a token, after widening
  size_t value_dims;
};

Call StartCall(const AttentionArgs& args) {
  const PageLayout& layout = *args.layout;
  Call call;
  call.args = &args;
  CutWorkspace(layout, args.scratch, &call.work);
  call.rule = MakeScoreRule(args);
  call.key_arithmetic = ArithmeticOf(layout.key_type);
  call.value_arithmetic = ArithmeticOf(layout.value_type);
  const bool many = args.rows >= kRowsToWiden;
  call.widen_keys = many && call.key_arithmetic == Arithmetic::kFloat && IsSixteenBit(layout.key_type);
  call.widen_values = many && call.value_arithmetic == Arithmetic::kFloat && IsSixteenBit(layout.value_type);
  call.key_lanes = PaddedKeyDim(layout) / ElementsInLane(layout.key_type) * (call.widen_keys ? 2 : 1);
  call.value_dims = PaddedValueDim(layout);
  switch (call.key_arithmetic) {
    case Arithmetic::kFloat:
      if (call.widen_keys || layout.key_type == CacheType::kF32) {
        PackFloatQueries<1>(args, call.key_lanes, call.work);
      } else {
        PackFloatQueries<2>(args, call.key_lanes, call.work);
      }
      break;
    case Arithmetic::kBF16Dot:
      PackBF16Queries(args, call.key_lanes, call.work);
      break;
    case Arithmetic::kBytes:
      if (layout.key_type == CacheType::kQ8_0) {
        PackByteQueries<Q8Format>(args, call.work);
      } else {
        PackByteQueries<Q4Format>(args, call.work);
      }
      break;
  }
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

void MultiplyKeys(Call& call, const TileView& view, const TilePointers& tile, const TilePointers& next) {
  const AttentionArgs& args = *call.args;
  const CacheType type = args.layout->key_type;
  Workspace& work = call.work;
  if (call.widen_keys) {
    // [kTile / 16][lanes][16] pairs: the groups follow each other, so one pass widens all.
    const size_t rows = kTile / kPageGroup * (call.key_lanes / 2);
    if (type == CacheType::kF16) {
      WidenLanes<F16Format>(tile.keys, rows, kPageGroup, work.wide_keys);
    } else {
      WidenLanes<WidenedBF16Format>(tile.keys, rows, kPageGroup, work.wide_keys);
    }
    return ScoreTile<F32Format>(args, view, work.wide_keys, nullptr, call.key_lanes, work);
  }
  switch (type) {
    case CacheType::kF32:
      return ScoreTile<F32Format>(args, view, tile.keys, next.keys, call.key_lanes, work);
    case CacheType::kF16:
      return ScoreTile<F16Format>(args, view, tile.keys, next.keys, call.key_lanes, work);
    case CacheType::kBF16:
      if constexpr (kHasBF16Dot) {
        return ScoreTile<BF16DotFormat>(args, view, tile.keys, next.keys, call.key_lanes, work);
      } else {
        return ScoreTile<WidenedBF16Format>(args, view, tile.keys, next.keys, call.key_lanes, work);
      }
    case CacheType::kQ8_0:
      return ScoreByteTile<Q8Format>(args, view, tile.keys, tile.key_scales, next.keys, work);
    case CacheType::kQ4_0:
      return ScoreByteTile<Q4Format>(args, view, tile.keys, tile.key_scales, next.keys, work);
  }
}

void MultiplyValues(Call& call, const TileView& view, const TilePointers& tile, const TilePointers& next,
                    float* triples) {
  const AttentionArgs& args = *call.args;
  const CacheType type = args.layout->value_type;
  const size_t dims = call.value_dims;
  Workspace& work = call.work;
  if (call.widen_values) {
    if (type == CacheType::kF16) {
      WidenLanes<F16Format>(tile.values, kTile / 2, dims, work.wide_values);
    } else {
      WidenLanes<WidenedBF16Format>(tile.values, kTile / 2, dims, work.wide_values);
    }
    return AddValueTile<F32Format>(args, view, work.wide_values, nullptr, dims, work.scores, triples);
  }
  switch (type) {
    case CacheType::kF32:
      return AddValueTile<F32Format>(args, view, tile.values, next.values, dims, work.scores, triples);
    case CacheType::kF16:
      return AddValueTile<F16Format>(args, view, tile.values, next.values, dims, work.scores, triples);
    case CacheType::kBF16:
      if constexpr (kHasBF16Dot) {
        return AddValueTile<BF16DotFormat>(args, view, tile.values, next.values, dims, work.p16, triples);
      } else {
        return AddValueTile<WidenedBF16Format>(args, view, tile.values, next.values, dims, work.scores, triples);
      }
    case CacheType::kQ8_0:
      return AddByteTile<Q8Format>(args, view, tile.values, tile.value_scales, next.values, work, triples);
    case CacheType::kQ4_0:
      return AddByteTile<Q4Format>(args, view, tile.values, tile.value_scales, next.values, work, triples);
  }
}

// The slots that any row sees, and those that all see.
struct Visible {
  SlotRange any;
  SlotRange all;
};

Visible VisibleSlots(const AttentionArgs& args) {
  int64_t first = INT64_MAX, last = 0, latest_first = 0, earliest_last = INT64_MAX;
  for (size_t r = 0; r < args.rows; ++r) {
    latest_first = args.first[r] > latest_first ? args.first[r] : latest_first;
    earliest_last = args.last[r] < earliest_last ? args.last[r] : earliest_last;
    if (args.first[r] >= args.last[r]) continue;
    first = args.first[r] < first ? args.first[r] : first;
    last = args.last[r] > last ? args.last[r] : last;
  }
  if (first >= last) return {{0, 0}, {0, 0}};
  return {{static_cast<size_t>(first < 0 ? 0 : first), static_cast<size_t>(last)},
          {static_cast<size_t>(latest_first), static_cast<size_t>(earliest_last < 0 ? 0 : earliest_last)}};
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
  size_t slot = segment * kAttentionSegment;
  const size_t end = slot + kAttentionSegment < visible.any.last ? slot + kAttentionSegment : visible.any.last;
  if (slot < visible.any.first) slot = visible.any.first / kTile * kTile;
  TileView view;
  view.whole = false;
  for (; slot < end; slot += kTile) {
    LookAtTile(args, visible.all, slot, &view);
    if (!view.any) continue;
    const TilePointers tile = FindTile(args, slot);
    const TilePointers next = PeekTile(args, slot + kTile, visible.any.last);
    MultiplyKeys(call, view, tile, next);
    for (size_t r = 0; r < args.rows; ++r) {
      if (Sees(view, r)) SoftmaxRow(call.rule, args, view, r, call.value_dims, call.work, triples + r * stride);
    }
    MultiplyValues(call, view, tile, next, triples);
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
  RunningRow rows[kAttentionMaxRows];
  for (size_t r = 0; r < args.rows; ++r) rows[r] = {kNegInf, 0.0f};
  for (size_t s = visible.any.first / kAttentionSegment; s * kAttentionSegment < visible.any.last; ++s) {
    RunSegment(call, visible, s, call.work.triples);
    for (size_t r = 0; r < args.rows; ++r) FoldTriple(call.work.triples + r * stride, value_dim, &rows[r], args.out[r]);
  }
  for (size_t r = 0; r < args.rows; ++r) {
    FinishRow(rows[r], value_dim, args.sinks != nullptr ? args.sinks[r] : kNegInf, args.out[r]);
  }
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
