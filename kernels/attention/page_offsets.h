// SPDX-License-Identifier: Apache-2.0
// Address arithmetic of page_layout.h, for the kernels, the packers and the unpackers. All results are bytes inside one
// (layer, KV head) part unless the name says otherwise. `static inline`: included by objects that may hold no weak
// symbol.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/attention/page_layout.h"
#include "kernels/base/round.h"

namespace moonlit {

// Tokens of one group of K, dims of one group of V, lanes of the widest vector.
inline constexpr size_t kPageGroup = 16;
// Values that share a scale in a quantized cache.
inline constexpr size_t kScaleGroup = 32;

static inline constexpr bool IsQuantized(CacheType type) {
  return type == CacheType::kQ8_0 || type == CacheType::kQ4_0;
}
static inline constexpr bool IsSixteenBit(CacheType type) {
  return type == CacheType::kF16 || type == CacheType::kBF16;
}
static inline constexpr size_t BitsOf(CacheType type) {
  return type == CacheType::kF32 ? 32 : IsSixteenBit(type) ? 16 : type == CacheType::kQ8_0 ? 8 : 4;
}
// Elements of one token (K) or one dim (V) that lie side by side in a 32-bit lane.
static inline constexpr size_t ElementsInLane(CacheType type) { return 32 / BitsOf(type); }

static inline size_t PaddedKeyDim(const PageLayout& layout) {
  return RoundUp(layout.key_dim, IsQuantized(layout.key_type) ? kScaleGroup : ElementsInLane(layout.key_type));
}
static inline size_t PaddedValueDim(const PageLayout& layout) {
  return RoundUp(layout.value_dim, IsQuantized(layout.value_type) ? kScaleGroup : kPageGroup);
}

// K of 16 tokens.
static inline size_t KeyGroupBytes(const PageLayout& layout) {
  return PaddedKeyDim(layout) * kPageGroup * BitsOf(layout.key_type) / 8;
}
// V of ElementsInLane tokens.
static inline size_t ValueStepBytes(const PageLayout& layout) { return PaddedValueDim(layout) * 4; }

// Index of the 32-bit lane of K's element (token, dim), and of V's; the element's place in the lane is the second
// number. For Q4_0 the place counts nibbles in this order: the low nibbles of bytes 0 .. 3, then the high ones.
static inline size_t KeyLane(const PageLayout& layout, size_t token, size_t dim) {
  const size_t g = ElementsInLane(layout.key_type);
  return (token / kPageGroup * (PaddedKeyDim(layout) / g) + dim / g) * kPageGroup + token % kPageGroup;
}
static inline size_t ValueLane(const PageLayout& layout, size_t token, size_t dim) {
  return token / ElementsInLane(layout.value_type) * PaddedValueDim(layout) + dim;
}

// Element numbers in the arrays of F16 scales.
static inline size_t KeyScaleIndex(const PageLayout& layout, size_t token, size_t dim) {
  return (token / kPageGroup * (PaddedKeyDim(layout) / kScaleGroup) + dim / kScaleGroup) * kPageGroup +
         token % kPageGroup;
}
static inline size_t ValueScaleIndex(const PageLayout& layout, size_t token, size_t dim) {
  return dim / kScaleGroup * layout.page_tokens + token;
}

// Of a part's key bounds inside the page: f32 lowest[key_dim] and highest[key_dim], which SummarizeKeys fills when the page is
// full.
static inline size_t KeyBoundsOffset(const PageLayout& layout, size_t part_offset) {
  return static_cast<size_t>(layout.layers) * layout.kv_heads * layout.part_bytes +
         part_offset / layout.part_bytes * layout.bounds_bytes;
}

}  // namespace moonlit
