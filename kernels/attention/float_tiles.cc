// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/fold-inl.h"
#include "kernels/attention/pack-inl.h"
#include "kernels/attention/scores-inl.h"
#include "kernels/attention/tiles-inl.h"
#include "kernels/attention/values-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// visit(Format()): how a tile of this type is multiplied.
template <class Visit>
HWY_INLINE void WithFloatFormat(CacheType type, Visit&& visit) {
  switch (type) {
    case CacheType::kF16:
      return visit(F16Format());
    case CacheType::kBF16:
      return visit(WidenedBF16Format());
    default:
      return visit(F32Format());
  }
}

}  // namespace

void PackFloatQueries(CacheType type, const AttentionArgs& args, size_t lanes, Workspace& work) {
  type == CacheType::kF32 ? PackQueriesOf<1>(args, lanes, work) : PackQueriesOf<2>(args, lanes, work);
}

void ScoreFloatTile(CacheType type, const AttentionArgs& args, const TileView& view, const uint8_t* keys, size_t lanes,
                    Workspace& work) {
  WithFloatFormat(
      type, [&](auto format) MOONLIT_INLINE_LAMBDA { ScoreTile<decltype(format)>(args, view, keys, lanes, work); });
}

void AddFloatTile(CacheType type, const AttentionArgs& args, const TileView& view, const uint8_t* values, size_t dims,
                  Workspace& work, float* triples) {
  WithFloatFormat(type, [&](auto format) MOONLIT_INLINE_LAMBDA {
    AddValueTile<decltype(format)>(args, view, values, dims, work, triples);
  });
}

void WidenTile(CacheType type, const uint8_t* from, size_t rows, size_t columns, uint8_t* to) {
  if (type == CacheType::kF16) {
    WidenLanes<F16Format>(from, rows, columns, to);
  } else {
    WidenLanes<WidenedBF16Format>(from, rows, columns, to);
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

void PackKeys(const PageLayout& layout, uint8_t* part, size_t slot, size_t tokens, const float* keys, size_t stride) {
  WithType(layout.key_type, [&](auto type) {
    for (size_t t = 0; t < tokens; ++t) PackKey<decltype(type)::kType>(layout, part, slot + t, keys + t * stride);
  });
}

void PackValues(const PageLayout& layout, uint8_t* part, size_t slot, size_t tokens, const float* values,
                size_t stride) {
  WithType(layout.value_type, [&](auto type) {
    for (size_t t = 0; t < tokens; ++t) PackValue<decltype(type)::kType>(layout, part, slot + t, values + t * stride);
  });
}

}  // namespace MOONLIT_NS
}  // namespace moonlit
