// SPDX-License-Identifier: Apache-2.0
// Which pages the tokens of a step read, where they choose (SparseAttention::pages): a page table for each choosing token and KV
// head, written by one stage of a layer and read by its attention. The next layer's overwrites it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/exec/plan.h"
#include "runtime/graph/graph.h"

namespace moonlit {

class PageChoices {
 public:
  PageChoices(const SparseAttention& sparse, size_t kv_heads, size_t threads)
      : sparse_(sparse),
        kv_heads_(kv_heads),
        tables_(sparse.most_tokens * kv_heads * sparse.most_pages),
        bounds_(threads * sparse.most_pages),
        order_(threads * sparse.most_pages) {}

  // Whether attention layer number `index` may choose.
  static bool Serves(const AttentionSpec& spec, size_t index);

  size_t pages() const { return sparse_.pages; }
  // [most_pages] of the choosing token (AttentionChunk::choice) and the KV head.
  const uint8_t** table(size_t token, size_t head) {
    return tables_.data() + (token * kv_heads_ + head) * sparse_.most_pages;
  }
  // A thread's own, [most_pages].
  float* bounds(size_t thread) { return bounds_.data() + thread * sparse_.most_pages; }
  uint32_t* order(size_t thread) { return order_.data() + thread * sparse_.most_pages; }

 private:
  SparseAttention sparse_;
  size_t kv_heads_;  // the most of any layer
  std::vector<const uint8_t*> tables_;
  std::vector<float> bounds_;
  std::vector<uint32_t> order_;
};

}  // namespace moonlit
