// SPDX-License-Identifier: Apache-2.0
// Fused causal attention over a paged cache: out = softmax(scale * Q K^T + mask) V, never storing the T x T table
// (Milakov & Gimelshein 2018, arXiv:1805.02867; Rabe & Staats 2021, arXiv:2112.05682; Dao et al. 2022, arXiv:2205.14135).
//
// Rows. One call serves the `group` query heads of one KV head for `tokens` query tokens: row r = token * group + g. Row r
// sees slot j  iff  first[r] <= j < last[r]  (half open; causal masks, sliding windows and chunks are all intervals), or
// j < sink_slots and j < last[r], and the slot's page is there: a null page hides its slots from every row. Several KV heads
// that follow each other may go together, with as many rows each and the same intervals: where rows are few, as in decode, a
// page is then read from its first head to its last as one stream.
//
// Numeric contract (docs/design.md). Slots are absolute. The unit is a tile of kAttentionTile slots at multiples of it: one
// maximum and one rescale decision per row and tile, one accumulator per score (head dimension ascending), one accumulator
// per output (keys ascending). A segment is kAttentionSegment slots; a segment's triple (max, sum, output) starts fresh, and
// triples are folded from the first visited segment upwards. A tile that is masked whole for a row leaves the row's triple
// untouched. So a row's bits depend on its query, the cache's values and its interval only: not on the other rows, the page
// size, prefill or decode, or the split into tasks.
//
// Two ways to run it, with equal bits:
//   attend        whole rows: walks all segments, folds them, writes normalised outputs (prefill; decode of short contexts)
//   attend_segment + merge: one segment of all rows -> triples; then the fold (decode of long contexts, shared over threads)
// Pure: no allocation, no threads. Scratch is the caller's: attention_scratch_bytes(shape), constant in T.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/attention/page_layout.h"
#include "kernels/cpu/variant.h"

namespace moonlit {

// Largest number of rows that one `attend` call may have: tokens * group (tokens may be cut into several calls).
inline constexpr size_t kAttentionMaxRows = 64;
// Most KV heads of one call, if each has `rows` rows.
inline constexpr size_t kAttentionMaxHeads = 16;
static inline size_t AttentionHeadsOfCall(size_t rows) {
  const size_t fit = kAttentionMaxRows / ((rows + 3) / 4 * 4);
  return fit < kAttentionMaxHeads ? fit : kAttentionMaxHeads;
}

struct AttentionArgs {
  const PageLayout* layout;
  const uint8_t* const* pages;  // page p holds slots [p * page_tokens, (p + 1) * page_tokens); null: nobody sees them
  size_t part_offset;           // PagePartOffset(layout, layer, the first KV head)
  size_t heads = 1;             // KV heads, 1 .. AttentionHeadsOfCall(rows)
  size_t rows;                  // of a KV head, 1 .. kAttentionMaxRows
  const float* const* q;        // [heads, rows] pointers to [key_dim] floats; not yet scaled
  const int64_t* first;         // [rows] interval of visible slots; first >= last: nothing is visible, the output is 0
  const int64_t* last;          // (unless there are sink_slots: then last <= 0 says it)
  int64_t sink_slots;           // a multiple of kAttentionTile; 0: none
  float scale;                  // multiplies q . k
  float softcap;                // 0: off; else score = softcap * tanh(scale * q.k / softcap)
  const float* sinks;  // [heads, rows] learned sink logit: joins maximum and denominator, not the numerator; null: none
  const float* alibi_slopes;  // [heads, rows] score += slope * (j - position[r]); null: none
  const int64_t* position;    // [rows], only for ALiBi
  float* const* out;          // [heads, rows] pointers to [value_dim] floats
  void* scratch;              // 64-byte aligned, attention_scratch_bytes(layout)
};

// Triples of one segment: for each row max (in units of log2), sum, 14 unused, then value_dim (padded to 32) unnormalised
// outputs. A row that sees nothing of the segment: max -inf, sum 0.
static inline size_t AttentionTripleFloats(const PageLayout& layout) { return 16 + (layout.value_dim + 31) / 32 * 32; }

struct AttentionTable {
  size_t (*scratch_bytes)(const PageLayout& layout);
  void (*attend)(const AttentionArgs& args);
  // Segment number `segment` (slots from segment * kAttentionSegment) for all rows; args.out is not used. triples:
  // [heads, rows, AttentionTripleFloats], 64-byte aligned.
  void (*attend_segment)(const AttentionArgs& args, size_t segment, float* triples);
  // Folds `count` segments for one row, ascending: triples + s * segment_stride (floats). Writes value_dim floats.
  void (*merge)(const PageLayout& layout, const float* triples, size_t segment_stride, size_t count,
                float sink_or_neg_inf, float* out);
  // The same a triple at a time. running: {max, sum} of the row so far, at first {-inf, 0}; out: the row's outputs so far.
  // After the last one, finish makes the outputs of them.
  void (*fold)(const PageLayout& layout, const float* triple, float* running, float* out);
  void (*finish)(const PageLayout& layout, const float* running, float sink_or_neg_inf, float* out);
  // Writes `tokens` keys / values of one (layer, head) part into a page at slot `slot` of the page. All tokens lie inside one
  // 16-token group. keys: [tokens, key_dim] with stride (elements). No two tasks may write one 16-token group.
  void (*pack_keys)(const PageLayout& layout, uint8_t* part, size_t slot, size_t tokens, const float* keys,
                    size_t stride);
  void (*pack_values)(const PageLayout& layout, uint8_t* part, size_t slot, size_t tokens, const float* values,
                      size_t stride);
};

// REQUIRES: IsBuilt(variant).
const AttentionTable& GetAttentionTable(Variant variant);

// What the cache holds, decoded: the float64 references read these.
void UnpackKey(const PageLayout& layout, const uint8_t* part, size_t slot, float* key);      // [key_dim]
void UnpackValue(const PageLayout& layout, const uint8_t* part, size_t slot, float* value);  // [value_dim]

// Writes the lowest and highest key of every dimension of a part into its bounds (kernels/attention/page_offsets.h) for the
// selection of pages (kernels/attention/selection.h). NaN where a key is one. REQUIRES: the page is full and nobody writes to it.
void SummarizeKeys(const PageLayout& layout, uint8_t* page, size_t part_offset);

// The cache type that a variant takes by default: BF16 where it has bf16 dots, else F16.
CacheType DefaultCacheType(Variant variant);

}  // namespace moonlit
