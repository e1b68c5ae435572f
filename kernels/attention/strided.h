// SPDX-License-Identifier: Apache-2.0
// Fused attention over plain arrays: no cache, no threads, no allocation. The kernels are those of the paged cache (there is
// no second kernel): K and V are packed a segment at a time into the caller's scratch, in the same layout, and attended
// there. So a row has the same bits as over a paged cache of the same types whose slot j holds key j.
//
//   StridedAttentionArgs args = {};                       // out = softmax(scale * Q K^T + mask) V
//   args.variant = SelectVariant(CpuFeatures());
//   args.tokens = args.context = n;                       // queries, keys
//   args.heads = 32, args.kv_heads = 8, args.key_dim = args.value_dim = 64;
//   args.q = {q, ElementType::kF32, 32 * 64, 64};         // [tokens, heads, key_dim], strides in elements
//   args.k = {k, ElementType::kF32, 8 * 64, 64};          // [context, kv_heads, key_dim]
//   args.v = {v, ElementType::kF32, 8 * 64, 64};          // [context, kv_heads, value_dim]
//   args.out = out, args.out_token_stride = 32 * 64, args.out_head_stride = 64;
//   args.key_type = args.value_type = CacheType::kF32;
//   args.scale = 1 / sqrtf(64), args.causal = true;
//   if (const char* fault = CheckStridedAttention(args)) ...
//   void* scratch = aligned_alloc(64, StridedAttentionScratchBytes(args));
//   StridedAttention(args, scratch);
//
// To share the work over threads, run the tasks 0 .. StridedAttentionTasks(args) - 1 in any order and at the same time, each
// with the scratch of its thread; their outputs do not overlap, and the bits do not depend on it. With a causal mask the last
// tasks are the longest: start with them.
//
// Meant for many queries: K and V are packed once for every kStridedRows query rows of a KV head. To decode a token at a
// time, keep K and V packed in pages and use kernels/attention/attention.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/attention/page_layout.h"
#include "kernels/cpu/variant.h"

namespace moonlit {

enum class ElementType : uint8_t { kF32, kF16, kBF16 };

// Element (t, h, i) of [tokens, heads, dim] is data[t * token_stride + h * head_stride + i]; strides in elements, at least 0.
// `data` must be aligned to its elements.
struct StridedRows {
  const void* data;
  ElementType type;
  size_t token_stride;
  size_t head_stride;
};

struct StridedAttentionArgs {
  Variant variant;  // IsBuilt, and the CPU runs it
  size_t tokens;    // queries
  size_t context;   // keys
  size_t heads;     // query heads, a multiple of kv_heads: head h reads KV head h / (heads / kv_heads)
  size_t kv_heads;
  size_t key_dim;    // 1 .. kMaxHeadDim
  size_t value_dim;  // 1 .. kMaxHeadDim
  StridedRows q;     // [tokens, heads, key_dim]
  StridedRows k;     // [context, kv_heads, key_dim]
  StridedRows v;     // [context, kv_heads, value_dim]; may lie inside k
  float* out;        // [tokens, heads, value_dim]; must not overlap the inputs
  size_t out_token_stride;
  size_t out_head_stride;

  // What K and V are rounded to before they are multiplied, and with it the arithmetic (docs/attention.md). kF32, or the type
  // that they have already, loses nothing.
  CacheType key_type;
  CacheType value_type;

  float scale;                // multiplies q . k
  float softcap;              // 0: off; else score = softcap * tanh(scale * q.k / softcap)
  const float* sinks;         // [heads] logits that join maximum and denominator, not the numerator; null: none
  const float* alibi_slopes;  // [heads] score += slope * (j - slot of the query); null: none

  // Query t stands at slot first_slot + t, and sees keys [0, context), of these
  //   causal: those up to its own slot; window > 0: the last `window` up to its own slot, and the first `sink_slots` keys
  //   (StreamingLLM, arXiv:2309.17453; a multiple of kAttentionTile).
  // Or `first` and `last` are given: query t sees keys first[t] <= j < last[t] (and the first sink_slots below last[t]), and
  // causal and window are not read. Chunks, prefixes that see each other, and several sequences in one batch are such
  // intervals. A query that sees nothing gives zeros.
  int64_t first_slot;  // 0 .. 2^62
  bool causal;
  size_t window;
  size_t sink_slots;
  const int64_t* first;  // [tokens] or null
  const int64_t* last;   // [tokens] or null
};

// Query rows (tokens * heads / kv_heads) of one task.
inline constexpr size_t kStridedRows = 512;

// Null, or what is wrong with the sizes, strides and types, in words. Pointers are taken on trust.
const char* CheckStridedAttention(const StridedAttentionArgs& args);

// The functions below REQUIRE CheckStridedAttention(args) == null.

// Bytes of scratch for one task; depends on variant, key_dim, value_dim and types only.
size_t StridedAttentionScratchBytes(const StridedAttentionArgs& args);

size_t StridedAttentionTasks(const StridedAttentionArgs& args);

// task < StridedAttentionTasks(args). scratch: 64-byte aligned, used by nobody else meanwhile.
void RunStridedAttentionTask(const StridedAttentionArgs& args, size_t task, void* scratch);

// All tasks, one after the other.
void StridedAttention(const StridedAttentionArgs& args, void* scratch);

}  // namespace moonlit
