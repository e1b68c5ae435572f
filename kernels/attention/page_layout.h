// SPDX-License-Identifier: Apache-2.0
// How keys and values lie in a page of the KV cache. One layout for all variants, so a saved session opens on another CPU.
//
// A page holds `page_tokens` (a multiple of 64) consecutive slots of one cache group: layers with equal KV heads, head
// sizes, types and window: for every (layer, KV head) a part, K and then V, each 64-byte aligned; behind all parts, for every
// (layer, KV head), the bounds of its keys. So the heads of a layer follow each other without a gap and are read as one stream.
//
//   K  [page_tokens / 16][d / g][16 tokens][g]     element (t, i): 16-token group t / 16, then i / g, then t % 16, then i % g
//   V  [page_tokens / g][dv / 16][16 dims][g]      element (t, j): token group t / g, then j / 16, then j % 16, then t % g
//
// g = 1 for F32, 2 for F16 and BF16, 4 for Q8_0 (and for the byte view of Q4_0, whose two nibbles a byte are the elements
// of two neighbouring dot groups). K's d is padded to a multiple of g (of 32 for quantized types), V's dv to 16 (32); padding
// is zero, and pages start zeroed. Quantized types: one F16 scale per token and 32 dims:
//   K scales [page_tokens / 16][d / 32][16 tokens], V scales [page_tokens][dv / 32] stored [d32][page_tokens].
// Q8_0 has codes -127 .. 127 of max|x| / 127; Q4_0 has codes -8 .. 7, stored + 8, of max|x| / 7.5 (not GGUF's max / -8,
// which can be negative). A group with an inf or a NaN has scale NaN. A written token is never rescaled. Key bounds
// are for the selection of pages (page_offsets.h).
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit {

enum class CacheType : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0 };
inline constexpr CacheType kAllCacheTypes[] = {CacheType::kF32, CacheType::kF16, CacheType::kBF16, CacheType::kQ8_0,
                                               CacheType::kQ4_0};
const char* CacheTypeName(CacheType type);              // "f32", "f16", "bf16", "q8_0", "q4_0"
bool FindCacheType(const char* name, CacheType* type);  // any case

// Tile and segment of the numeric contract, in slots. Test builds make them small so that short prompts cross them.
#ifndef MOONLIT_ATTENTION_TILE
#define MOONLIT_ATTENTION_TILE 64
#endif
#ifndef MOONLIT_ATTENTION_SEGMENT
#define MOONLIT_ATTENTION_SEGMENT 512
#endif
inline constexpr size_t kAttentionTile = MOONLIT_ATTENTION_TILE;
inline constexpr size_t kAttentionSegment = MOONLIT_ATTENTION_SEGMENT;
static_assert(kAttentionTile % 16 == 0 && kAttentionSegment % kAttentionTile == 0);

// The shape of a page. Plain data: set the first block of fields, then call FinishPageLayout.
struct PageLayout {
  uint32_t page_tokens;  // multiple of kAttentionTile
  uint32_t layers;       // layers of the group
  uint32_t kv_heads;
  uint32_t key_dim;    // head size of K
  uint32_t value_dim;  // head size of V
  CacheType key_type;
  CacheType value_type;

  // Filled by FinishPageLayout; bytes.
  size_t key_scale_offset;  // inside a (layer, head) part, which begins with K; quantized types
  size_t value_offset;
  size_t value_scale_offset;
  size_t part_bytes;    // one (layer, head) part
  size_t bounds_bytes;  // key bounds of one (layer, head)
  size_t page_bytes;    // layers * kv_heads * (part_bytes + bounds_bytes)
};

// Largest key or value size of a head.
inline constexpr uint32_t kMaxHeadDim = 1024;

// Computes the offsets. Returns false when a field is out of range (zero, page_tokens no multiple of kAttentionTile, head
// sizes above kMaxHeadDim) or the size overflows.
bool FinishPageLayout(PageLayout* layout);

// Makes a page what it would be if nothing had ever been written to its slots from `slot` on: they are zero, and so are, unless
// that is the page's end, the bounds of its keys. The same bytes on every variant. REQUIRES: slot <= page_tokens; nobody else reads
// the page.
void ClearSlots(const PageLayout& layout, uint8_t* page, size_t slot);

// A sequence's slots from `begin` up to the next run's begin hold keys that were rotated to the position slot + shift. A
// shift other than 0 comes from blocks dropped before them; only differences of positions matter to attention.
struct SlotRun {
  int64_t begin;
  int64_t shift;
};

static inline size_t PagePartOffset(const PageLayout& layout, size_t layer, size_t head) {
  return (layer * layout.kv_heads + head) * layout.part_bytes;
}

}  // namespace moonlit
