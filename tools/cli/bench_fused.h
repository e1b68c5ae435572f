// SPDX-License-Identifier: Apache-2.0
// Fused attention as the engine runs it, without a model around it: exec's own stages over pages of the cache.
#pragma once

#include <memory>
#include <vector>

#include "kernels/attention/attention.h"
#include "runtime/base/status.h"
#include "runtime/exec/ops/attention_geometry.h"
#include "runtime/exec/stage.h"
#include "runtime/exec/step.h"
#include "runtime/tensor/buffer.h"
#include "runtime/threads/pool.h"

namespace moonlit::cli {

struct AttentionShape {
  size_t heads, kv_heads, head_dim;
  size_t tokens;   // queries: the last `tokens` of the context
  size_t context;  // keys in the cache when the last token is done
  CacheType key_type, value_type;
};

inline constexpr size_t kAttentionStepTokens = 512;  // as the engine's default: longer prefills are several steps

class FusedAttention {
 public:
  // keys, values: [kv_heads, context, head_dim], packed into pages; every layer gets the same ones. kUnsupported (a shape that
  // a page can't hold), kOutOfMemory.
  static Result<std::unique_ptr<FusedAttention>> Make(const AttentionShape& shape, Variant variant, ThreadPool& pool,
                                                      size_t layers, const float* keys, const float* values);
  // All tokens of one layer, causal, in steps of kAttentionStepTokens. Query i is row i % q_rows() of q().
  Status Run(size_t layer);

  size_t q_rows() const { return std::min(shape_.tokens, kAttentionStepTokens); }
  float* q() { return rows_.as<float>(); }  // [q_rows, heads * head_dim], filled by the caller
  const float* out() const { return rows_.as<float>() + q_rows() * shape_.heads * shape_.head_dim; }
  float scale() const { return stage_.attention.scale; }
  // What one token reads of a layer's cache: keys, values and their scales up to the context.
  static double CacheBytes(const AttentionShape& shape);

 private:
  FusedAttention(const AttentionShape& shape, ThreadPool& pool) : shape_(shape), pool_(pool) {}
  Status Allocate(Variant variant, size_t layers);
  void FillCache(const float* keys, const float* values);
  void MakeStages();

  AttentionShape shape_;
  ThreadPool& pool_;
  PageLayout layout_{};
  Buffer cache_, rows_, scratch_, triples_;
  std::vector<uint8_t*> pages_;
  uint8_t* const* groups_[1] = {};
  std::vector<int32_t> ids_;
  StepSpan span_{};
  FusedStage stage_{};
  std::unique_ptr<Step> step_;
  std::unique_ptr<AttentionGeometry> geometry_;
  Bindings bindings_{};
  std::vector<std::unique_ptr<ExecStage>> stages_;  // of every layer: attention, merge
};

}  // namespace moonlit::cli
