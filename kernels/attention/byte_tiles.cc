// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/bytes-inl.h"
#include "kernels/attention/tiles-inl.h"

namespace moonlit {
namespace MOONLIT_NS {

void PackByteQueries(const AttentionArgs& args, Workspace& work) {
  args.layout->key_type == CacheType::kQ8_0 ? PackQueriesOf<Q8Format>(args, work) : PackQueriesOf<Q4Format>(args, work);
}

void ScoreByteTile(const AttentionArgs& args, const TileView& view, const uint8_t* keys, const uint8_t* scales,
                   Workspace& work) {
  if (args.layout->key_type == CacheType::kQ8_0) {
    ScoreTileOf<Q8Format>(args, view, keys, scales, work);
  } else {
    ScoreTileOf<Q4Format>(args, view, keys, scales, work);
  }
}

void AddByteTile(const AttentionArgs& args, const TileView& view, const uint8_t* values, const uint8_t* scales,
                 Workspace& work, float* triples) {
  if (args.layout->value_type == CacheType::kQ8_0) {
    AddTileOf<Q8Format>(args, view, values, scales, work, triples);
  } else {
    AddTileOf<Q4Format>(args, view, values, scales, work, triples);
  }
}

}  // namespace MOONLIT_NS
}  // namespace moonlit
