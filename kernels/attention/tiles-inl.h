// SPDX-License-Identifier: Apache-2.0
// The products of one tile, by the arithmetic that they take. The walk (attend-inl.h) calls those of its variant's bases. A widened
// tile is one of type kF32.
#pragma once

#include "kernels/attention/tile.h"
#include "kernels/cpu/variant-inl.h"

namespace moonlit {

// float_tiles.cc
namespace MOONLIT_FLOATS_NS {
// lanes: of K a token. The queries of such a call, once for all tiles; then scores = q . k, and triples' outputs += p . V.
void PackFloatQueries(CacheType type, const AttentionArgs& args, size_t lanes, Workspace& work);
void ScoreFloatTile(CacheType type, const AttentionArgs& args, const TileView& view, const uint8_t* keys, size_t lanes,
                    Workspace& work);
void AddFloatTile(CacheType type, const AttentionArgs& args, const TileView& view, const uint8_t* values, size_t dims,
                  Workspace& work, float* triples);
// A 16-bit tile as f32: the same products are then added in the same order.
void WidenTile(CacheType type, const uint8_t* from, size_t rows, size_t columns, uint8_t* to);

// AttentionTable's.
void Fold(const PageLayout& layout, const float* triple, float* running, float* out);
void Finish(const PageLayout& layout, const float* running, float sink, float* out);
void Merge(const PageLayout& layout, const float* triples, size_t segment_stride, size_t count, float sink, float* out);
void PackKeys(const PageLayout& layout, uint8_t* part, size_t slot, size_t tokens, const float* keys, size_t stride);
void PackValues(const PageLayout& layout, uint8_t* part, size_t slot, size_t tokens, const float* values,
                size_t stride);
}  // namespace MOONLIT_FLOATS_NS

// byte_tiles.cc
namespace MOONLIT_BYTES_NS {
void PackByteQueries(const AttentionArgs& args, Workspace& work);
void ScoreByteTile(const AttentionArgs& args, const TileView& view, const uint8_t* keys, const uint8_t* scales,
                   Workspace& work);
// scales: of the page, not of the tile
void AddByteTile(const AttentionArgs& args, const TileView& view, const uint8_t* values, const uint8_t* scales,
                 Workspace& work, float* triples);
}  // namespace MOONLIT_BYTES_NS

}  // namespace moonlit
