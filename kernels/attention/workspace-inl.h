// SPDX-License-Identifier: Apache-2.0
// The scratch memory of one attention call, cut into pieces, and the visible part of a tile.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/attention/page_offsets.h"
#include "kernels/simd/bf16_dot-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

constexpr size_t kTile = kAttentionTile;
constexpr size_t kTileVecs = kTile / kLanes;

// Without vector registers, blocks gain nothing and only make the compiler slow.
constexpr bool kHasRegisters = HWY_TARGET != HWY_EMU128;

// Rows whose accumulators are in registers at the same time; they share each load of K and V.
constexpr size_t kRowBlock = kHasRegisters ? 4 : 1;

// Vectors beside each other in such a block: 16 accumulators where there are 32 registers, 8 where there are 16.
constexpr size_t kMostVecs = !kHasRegisters ? 1 : HWY_MAX_BYTES == 64 || HWY_ARCH_ARM_A64 ? 4 : 2;
constexpr size_t kScoreVecs = kMostVecs < kTileVecs ? kMostVecs : kTileVecs;

// From this many rows on, a 16-bit tile is widened to f32 in scratch once instead of in registers once a row block. The
// same products are added in the same order either way.
constexpr size_t kRowsToWiden = 3 * kRowBlock;

constexpr float kLog2E = 1.44269504088896341f;
constexpr float kNegInf = -__builtin_inff();
// Scores are kept inside +-3e38, so that an overflow takes part as the largest number and max - max is never inf - inf.
constexpr float kLargestScore = 3e38f;

// How products with K (or V) are computed: fixed by the variant and the cache type.
enum class Arithmetic { kFloat, kBF16Dot, kBytes };
HWY_INLINE Arithmetic ArithmeticOf(CacheType type) {
  if (IsQuantized(type)) return Arithmetic::kBytes;
  return kHasBF16Dot && type == CacheType::kBF16 ? Arithmetic::kBF16Dot : Arithmetic::kFloat;
}

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

constexpr size_t kSoftmaxParts = 4;  // of SoftmaxRow: each asks for some lines

// The same for all tiles of a call.
struct LinesShare {
  size_t keys, key_scales, values, value_scales;  // bytes of a tile
  size_t per_key_step;                            // lines in a step of the first row block's byte dots with K
  size_t per_row_part;                            // in a part of a row's softmax
  size_t per_probabilities;                       // in quantizing a row's probabilities for 32 dims
  size_t per_value_step;                          // in a step of the first row block's byte dots with V
};

// Ranges are added last to first.
HWY_INLINE void AddLines(const uint8_t* at, size_t bytes, LinesAhead* ahead) {
  if (bytes == 0) return;
  const uint8_t* end = at + RoundUp(bytes, 64);
  if (ahead->ranges != 0 && ahead->first[ahead->ranges - 1] == end) {
    ahead->first[ahead->ranges - 1] = at;
    return;
  }
  ahead->first[ahead->ranges] = at;
  ahead->last[ahead->ranges++] = end;
}

HWY_INLINE void OpenLines(LinesAhead* ahead) {
  if (ahead->ranges == 0) return;
  ahead->at = ahead->first[--ahead->ranges];
  ahead->end = ahead->last[ahead->ranges];
}

HWY_INLINE void PrefetchLine(const uint8_t* line, uintptr_t second) {
  __builtin_prefetch(line, 0, 2);
  __builtin_prefetch(reinterpret_cast<const uint8_t*>(reinterpret_cast<uintptr_t>(line) + second), 0, 2);
}

HWY_INLINE void PrefetchLines(size_t count, LinesAhead* ahead) {
  const uint8_t* at = ahead->at;
  const size_t left = static_cast<size_t>(ahead->end - at);
  const uint8_t* stop = at + (64 * count < left ? 64 * count : left);
  for (; at != stop; at += 64) PrefetchLine(at, ahead->second);
  ahead->at = at;
  if (HWY_UNLIKELY(at == ahead->end)) OpenLines(ahead);
}

// Whatever is left.
HWY_INLINE void PrefetchAllLines(LinesAhead* ahead) {
  while (ahead->at != ahead->end) PrefetchLines(static_cast<size_t>(ahead->end - ahead->at) / 64, ahead);
}

// For a loop that asks for `count` lines itself, in order: their address. Null when so many don't follow each other.
HWY_INLINE const uint8_t* TakeLines(size_t count, LinesAhead* ahead) {
  const uint8_t* at = ahead->at;
  if (static_cast<size_t>(ahead->end - at) < 64 * count || count == 0) return nullptr;
  ahead->at = at + 64 * count;
  if (ahead->at == ahead->end) OpenLines(ahead);
  return at;
}

// Lines that a step of float products asks for: three quarters of those that it reads, the softmax asks for the rest.
template <size_t kVecs>
constexpr size_t kLinesOfStep = CeilDiv(kVecs* kLanes * 4 * 3, 4 * 64);

template <size_t kCount>
HWY_INLINE const uint8_t* PrefetchStep(const uint8_t* at, uintptr_t second) {
  if (at == nullptr) return at;
  Unroll<kCount>([&](auto i) MOONLIT_INLINE_LAMBDA { PrefetchLine(at + 64 * i, second); });
  return at + 64 * kCount;
}

struct Workspace {
  LinesAhead ahead;
  LinesShare share;
  // Queries. Float: [row / 4][lane][row % 4][elements]; bf16 pairs: [row / 4][lane][row % 4]; bytes: [row][key_dim].
  uint32_t* q;
  size_t q_block;     // words of one row block
  int8_t* q8;         // [rows, padded key_dim]
  float* q8_scale;    // [rows, d32]
  int32_t* q8_start;  // [rows, d32]: what the byte dot starts from

  float* scores;      // [rows, kTile]: scores, then probabilities
  uint16_t* p16;      // [rows, kTile]: probabilities as bf16
  int8_t* p8;         // [kRowBlock, v32, kTile]
  float* p8_scale;    // [kRowBlock, v32]
  int32_t* p8_start;  // [kRowBlock, v32]

  float* v8_scale;     // [v32, kTile]
  int32_t* v8_start;   // [padded value_dim]
  uint8_t* wide_keys;  // one tile as F32
  uint8_t* wide_values;

  float* lane_sums;  // [rows, kLanes]: sums of a segment's probabilities, one for each lane

  float* triples;  // [rows, AttentionTripleFloats]
};

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

// The visible part of a tile for each row, in slots relative to the tile: [low, high); empty: low == high == 0.
struct TileView {
  size_t slot;  // the tile's first slot, absolute
  bool any;
  bool whole;  // every row sees all of it
  uint16_t low[kAttentionMaxRows];
  uint16_t high[kAttentionMaxRows];
};

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

// All vectors of a tile's scores: in registers where they fit, else a loop over memory.
template <size_t kFirst = 0, class Body>
HWY_INLINE void ForTileVecs(Body&& body) {
  if constexpr (kTileVecs <= 8 && kHasRegisters) {
    Unroll<kTileVecs, kFirst>(body);
  } else {
    for (size_t v = kFirst; v < kTileVecs; ++v) body(v);
  }
}

HWY_INLINE bool Sees(const TileView& view, size_t row) { return view.low[row] < view.high[row]; }

// Calls body(rows, first_row) with the number of rows as a constant.
template <class Body>
HWY_INLINE void WithRows([[maybe_unused]] size_t rows, Body&& body) {
  static_assert(kRowBlock == 4 || kRowBlock == 1, "cases below");
  if constexpr (kRowBlock == 1) {
    return body(Index<1>());
  } else {
    switch (rows) {
      case 4:
        return body(Index<4>());
      case 3:
        return body(Index<3>());
      case 2:
        return body(Index<2>());
      default:
        return body(Index<1>());
    }
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
