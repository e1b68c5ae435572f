// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/ops/query_turn.h"

#include "runtime/exec/rope_angles.h"

namespace moonlit {

RunScratch ScratchOfRuns(const Bindings& b, const PageLayout& layout, size_t thread) {
  return RunScratch(layout, static_cast<uint8_t*>(b.scratch.of(thread)) + b.attention->scratch_bytes(layout));
}

QueryTurn::QueryTurn(const Bindings& bindings, const AttentionSpec& spec, const Bindings::AttentionPlace& place,
                     int64_t turn, size_t thread)
    : b_(bindings),
      spec_(spec),
      scratch_(ScratchOfRuns(bindings, *place.layout, thread)),
      turned_(turn != 0 && place.angles != nullptr) {
  if (turned_) place.angles->FillTurn(turn, scratch_.cosines, scratch_.sines);
}

const float* QueryTurn::Of(const float* query, size_t r) const {
  if (!turned_) return query;
  float* turned = scratch_.queries + r * spec_.key_dim;
  b_.rope->rotate_heads({.kind = spec_.rope.pairs == RopePairs::kHalves ? RopeKind::kHalves : RopeKind::kPairs,
                         .x = query,
                         .x_stride = spec_.key_dim,
                         .heads = 1,
                         .head_dim = spec_.key_dim,
                         .rotated = spec_.rope.dims,
                         .cosines = scratch_.cosines,
                         .sines = scratch_.sines,
                         .out = turned,
                         .out_stride = spec_.key_dim});
  return turned;
}

}  // namespace moonlit
