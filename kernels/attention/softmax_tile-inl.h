// SPDX-License-Identifier: Apache-2.0
// Raw products of one row and tile -> probabilities relative to the row's running maximum. Scores are kept in units of
// log2, so that a probability is one exp2.
#pragma once

#include "kernels/attention/workspace-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// A row's reference, which the probabilities of a segment are relative to, is the highest score of its first tile. It follows a
// higher score only when that lies more than so many powers of two above it: probabilities of up to 256 are as exact as those
// below 1, and rescaling (with the branch that foretells it) is left to rows whose scores really grow.
constexpr float kRescaleAbove = 8.0f;

// What is the same for all rows of a call.
struct ScoreRule {
  float factor;  // multiplies q . k; with a cap: gives tanh's argument
  float cap;     // softcap in units of log2; 0: off
  bool round_to_bf16;
};

ScoreRule MakeScoreRule(const AttentionArgs& args) {
  ScoreRule rule;
  rule.cap = args.softcap * kLog2E;
  rule.factor = args.softcap != 0.0f ? args.scale / args.softcap : args.scale * kLog2E;
  rule.round_to_bf16 = ArithmeticOf(args.layout->value_type) == Arithmetic::kBF16Dot;
  return rule;
}

// out *= factor; `floats` is a multiple of 16.
MOONLIT_INNER void ScaleOutputs(float* out, size_t floats, float factor) {
  const VF32 f = hn::Set(DF32(), factor);
  for (size_t i = 0; i < floats; i += kLanes) hn::Store(hn::Mul(hn::Load(DF32(), out + i), f), DF32(), out + i);
}

// Products -> scores: scale, cap, ALiBi.
MOONLIT_INNER void FinishScores(const ScoreRule& rule, const AttentionArgs& args, size_t row, const TileView& view,
                                VF32 (&x)[kTileVecs]) {
  const DF32 df;
  const VF32 factor = hn::Set(df, rule.factor);
  ForTileVecs([&](auto v) MOONLIT_INLINE_LAMBDA { x[v] = hn::Mul(x[v], factor); });
  if (rule.cap != 0.0f) {
    const VF32 cap = hn::Set(df, rule.cap);
    ForTileVecs([&](auto v) MOONLIT_INLINE_LAMBDA { x[v] = hn::Mul(cap, Tanh(df, x[v])); });
  }
  if (args.alibi_slopes != nullptr) {
    const VF32 slope = hn::Set(df, args.alibi_slopes[row] * kLog2E);
    const float distance = static_cast<float>(static_cast<int64_t>(view.slot) - args.position[row]);
    ForTileVecs([&](auto v) MOONLIT_INLINE_LAMBDA {
      const VF32 j = hn::Iota(df, distance + static_cast<float>(v * kLanes));
      x[v] = hn::MulAdd(slope, j, x[v]);
    });
  }
}

// Keeps scores inside +-kLargestScore. By comparisons, not by Min and Max, which lose NaN on some targets.
MOONLIT_INNER void BoundScores(VF32 (&x)[kTileVecs]) {
  const DF32 df;
  const VF32 highest = hn::Set(df, kLargestScore);
  const VF32 lowest = hn::Set(df, -kLargestScore);
  ForTileVecs([&](auto v) MOONLIT_INLINE_LAMBDA {
    x[v] = hn::IfThenElse(hn::Gt(x[v], highest), highest, x[v]);
    x[v] = hn::IfThenElse(hn::Lt(x[v], lowest), lowest, x[v]);
  });
}

MOONLIT_INNER void HideSlots(size_t low, size_t high, VF32 (&x)[kTileVecs]) {
  const DF32 df;
  const VF32 from = hn::Set(df, static_cast<float>(low));
  const VF32 to = hn::Set(df, static_cast<float>(high));
  ForTileVecs([&](auto v) MOONLIT_INLINE_LAMBDA {
    const VF32 j = hn::Iota(df, static_cast<float>(v * kLanes));
    x[v] = hn::IfThenElse(hn::And(hn::Ge(j, from), hn::Lt(j, to)), x[v], hn::Set(df, kNegInf));
  });
}

// bf16 probabilities for the products with V. The sums take the rounded values too, so that the weights still add up to 1.
MOONLIT_INNER void StoreBF16(const VF32 (&p)[kTileVecs], uint16_t* out, float* lane_sums) {
  const DF32 df;
  VF32 sum = hn::Load(df, lane_sums);
  if constexpr (kTileVecs % 2 == 0 && kTileVecs <= 8) {
    Unroll<kTileVecs / 2>([&](auto v) MOONLIT_INLINE_LAMBDA {
      sum = StoreAndAddBF16(sum, p[2 * v], p[2 * v + 1], out + 2 * v * kLanes);
    });
  } else {
    for (size_t v = 0; v < kTileVecs; ++v) sum = hn::Add(sum, StoreAsBF16(p[v], out + v * kLanes));
  }
  hn::Store(sum, df, lane_sums);
}

// The largest score of each lane.
MOONLIT_INNER VF32 LargestOfLanes(const VF32 (&x)[kTileVecs]) {
  VF32 largest = x[0];
  ForTileVecs<1>([&](auto v) MOONLIT_INLINE_LAMBDA { largest = hn::Max(largest, x[v]); });
  return largest;
}

// Sums, outputs: of a row's triple; they are rescaled to the new maximum.
MOONLIT_INNER void RaiseMaximum(float max, size_t value_floats, float* lane_sums, float* triple) {
  if (triple[0] != kNegInf) {
    const float correction = Exp2Of(triple[0] - max);
    ScaleOutputs(lane_sums, kLanes, correction);
    ScaleOutputs(triple + 16, value_floats, correction);
  }
  triple[0] = max;
}

// One row that sees something of the tile. scores: [kTile] products, replaced by probabilities. triple: max, sum, ...,
// outputs; the sum is in work.lane_sums until the segment ends.
void SoftmaxRow(const ScoreRule& rule, const AttentionArgs& args, const TileView& view, size_t row, size_t value_floats,
                Workspace& work, float* triple) {
  const DF32 df;
  float* scores = work.scores + row * kTile;
  float* lane_sums = work.lane_sums + row * kLanes;
  const bool partial = view.low[row] != 0 || view.high[row] != kTile;
  VF32 x[kTileVecs];
  ForTileVecs([&](auto v) MOONLIT_INLINE_LAMBDA { x[v] = hn::Load(df, scores + v * kLanes); });
  PrefetchLines(work.share.per_row_part, &work.ahead);
  FinishScores(rule, args, row, view, x);
  if (partial) HideSlots(view.low[row], view.high[row], x);
  VF32 largest = LargestOfLanes(x);
  // Hardly a tile does, and one comparison tells.
  bool rises = !hn::AllFalse(df, hn::Gt(largest, hn::Set(df, triple[0] + kRescaleAbove)));
  float max = rises ? hn::ReduceMax(df, largest) : triple[0];
  // Bounds only matter where a score is that large, or where all are so low that an infinity is no longer far away.
  if (HWY_UNLIKELY(!(max > -1e38f && max <= kLargestScore))) {
    BoundScores(x);
    if (partial) HideSlots(view.low[row], view.high[row], x);
    max = hn::ReduceMax(df, LargestOfLanes(x));
    rises = max > triple[0];
  }
  PrefetchLines(work.share.per_row_part, &work.ahead);
  if (rises) RaiseMaximum(max, value_floats, lane_sums, triple);
  PrefetchLines(work.share.per_row_part, &work.ahead);
  const VF32 highest = hn::Set(df, triple[0]);
  ForTileVecs([&](auto v) MOONLIT_INLINE_LAMBDA { x[v] = Exp2UpTo127(df, hn::Sub(x[v], highest)); });
  PrefetchLines(work.share.per_row_part, &work.ahead);
  if (rule.round_to_bf16) return StoreBF16(x, work.p16 + row * kTile, lane_sums);
  ForTileVecs([&](auto v) MOONLIT_INLINE_LAMBDA { hn::Store(x[v], df, scores + v * kLanes); });
  VF32 sum = x[0];
  ForTileVecs<1>([&](auto v) MOONLIT_INLINE_LAMBDA { sum = hn::Add(sum, x[v]); });
  hn::Store(hn::Add(hn::Load(df, lane_sums), sum), df, lane_sums);
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
