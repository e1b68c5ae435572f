// SPDX-License-Identifier: Apache-2.0
// What the parts of an attention kernel share: sizes of blocks, asking for lines ahead, loops over a tile.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/attention/page_offsets.h"
#include "kernels/attention/tile.h"
#include "kernels/simd/bf16_dot-inl.h"
#include "kernels/simd/exp-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

constexpr size_t kTile = kAttentionTile;
constexpr size_t kTileVecs = kTile / kLanes;

// Without vector registers, blocks gain nothing and only make the compiler slow.
constexpr bool kHasRegisters = !MOONLIT_EMULATED;

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

MOONLIT_INNER float Exp2Of(float x) { return hn::GetLane(Exp2UpTo127(DF32(), hn::Set(DF32(), x))); }

// How products with K (or V) are computed: fixed by the variant and the cache type.
enum class Arithmetic { kFloat, kBF16Dot, kBytes };
HWY_INLINE Arithmetic ArithmeticOf(CacheType type) {
  if (IsQuantized(type)) return Arithmetic::kBytes;
  return kHasBF16Dot && type == CacheType::kBF16 ? Arithmetic::kBF16Dot : Arithmetic::kFloat;
}

constexpr size_t kSoftmaxParts = 4;  // of SoftmaxRow: each asks for some lines

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
