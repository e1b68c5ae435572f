// SPDX-License-Identifier: Apache-2.0
// What the parts of an attention kernel hand to each other: the walk over tiles (attend-inl.h), compiled once a variant, and the
// products of a tile, which variants share where their dot products are the same (float_tiles.cc, byte_tiles.cc).
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/attention/attention.h"

namespace moonlit {

// Cache lines of the next tile that are still to be prefetched. A core has room for some twenty lines under way; a load that finds
// no room waits, and a request is dropped (Zen 4: a loop of nothing but prefetching passes over memory four times as fast as it
// can be read). So lines are asked for evenly over the whole tile, softmax included, and twice: the same line of the tile after
// the next is asked for as well.
struct LinesAhead {
  static constexpr size_t kMostRanges = 4;
  const uint8_t* at;  // of the current range: the next line
  const uint8_t* end;
  const uint8_t* first[kMostRanges];  // ranges to come, the next one last
  const uint8_t* last[kMostRanges];
  size_t ranges;
  uintptr_t second;  // from a line of the next tile to that of the one after; 0: there is none
};

// The same for all tiles of a call.
struct LinesShare {
  size_t keys, key_scales, values, value_scales;  // bytes of a tile
  size_t per_key_step;                            // lines in a step of the first row block's byte dots with K
  size_t per_row_part;                            // in a part of a row's softmax
  size_t per_probabilities;                       // in quantizing a row's probabilities for 32 dims
  size_t per_value_step;                          // in a step of the first row block's byte dots with V
};

// Pieces of a call's scratch memory. A tile is kAttentionTile slots, a block as many rows as share registers (kRowBlock), lanes are
// those of a vector of floats.
struct Workspace {
  LinesAhead ahead;
  LinesShare share;
  // Queries. Float: [row / 4][lane][row % 4][elements]; bf16 pairs: [row / 4][lane][row % 4]; bytes: [row][key_dim].
  uint32_t* q;
  size_t q_block;     // words of one row block
  int8_t* q8;         // [rows, padded key_dim]
  float* q8_scale;    // [rows, d32]
  int32_t* q8_start;  // [rows, d32]: what the byte dot starts from

  float* scores;      // [rows, tile]: scores, then probabilities
  uint16_t* p16;      // [rows, tile]: probabilities as bf16
  int8_t* p8;         // [block, v32, tile]
  float* p8_scale;    // [block, v32]
  int32_t* p8_start;  // [block, v32]

  float* v8_scale;     // [v32, tile]
  int32_t* v8_start;   // [padded value_dim]
  uint8_t* wide_keys;  // one tile as F32
  uint8_t* wide_values;

  float* lane_sums;  // [rows, lanes]: sums of a segment's probabilities, one for each lane

  float* triples;  // [rows, AttentionTripleFloats]
};

// The visible part of a tile for each row, in slots relative to the tile: [low, high); empty: low == high == 0.
struct TileView {
  size_t slot;  // the tile's first slot, absolute
  bool any;
  bool whole;  // every row sees all of it
  uint16_t low[kAttentionMaxRows];
  uint16_t high[kAttentionMaxRows];
};

}  // namespace moonlit
