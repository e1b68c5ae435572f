// SPDX-License-Identifier: Apache-2.0
// Attention as the formula reads: a table of all scores, a softmax of its rows, a product with the values. What fused attention
// is compared with. Plain f32 loops over arrays in the order that suits them best, shared out over the pool's threads; masked
// scores are left out, so it does not do twice the work. A head's table is tokens x context floats; as many heads are worked on
// at a time as keep the tables within 64 MiB, at least one.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/tensor/buffer.h"
#include "runtime/threads/pool.h"

namespace moonlit::cli {

struct NaiveShape {
  size_t heads, kv_heads, head_dim;
  size_t tokens;   // queries: the last `tokens` of the context
  size_t context;  // keys; query i sees keys 0 .. context - tokens + i
  // Of one head.
  size_t table_bytes() const { return tokens * context * sizeof(float); }
};

class NaiveAttention {
 public:
  // keys, values: [kv_heads, context, head_dim]. kOutOfMemory.
  static Result<NaiveAttention> Make(const NaiveShape& shape, const float* keys, const float* values);
  // q: [q_rows, heads * head_dim]; query i is row i % q_rows. out: [q_rows, heads * head_dim] gets the last q_rows queries'
  // outputs, each at its row.
  void Run(ThreadPool& pool, const float* q, size_t q_rows, float scale, float* out);

 private:
  NaiveShape shape_{};
  const float* values_ = nullptr;
  std::vector<float> keys_;  // transposed: [kv_heads, head_dim, context]
  size_t heads_at_once_ = 1;
  Buffer table_;  // [heads_at_once, tokens, context]
};

}  // namespace moonlit::cli
