// SPDX-License-Identifier: Apache-2.0
// A forward pass of a real model that keeps what its attention layers read: queries as the fused kernel takes them, its outputs, which
// slots each token sees, and the cache with the keys and values.
//
//   MOONLIT_ASSIGN_OR_RETURN(auto model, CapturedModel::Open("poet", {}, options));
//   model->capture().Want(index, heads, tokens);
//   MOONLIT_RETURN_IF_ERROR(model->Read(ids));      // all chunks of one text; a second call reads another one
//   std::vector<float> keys = model->Keys(index, kv_head);
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/api/load.h"
#include "runtime/base/status.h"
#include "runtime/cache/cache.h"
#include "runtime/exec/plan.h"
#include "runtime/exec/step_tap.h"
#include "runtime/graph/graph.h"
#include "runtime/threads/pool.h"

namespace moonlit::cli {

struct CapturedLayer {
  TappedLayer facts;
  std::vector<size_t> heads;         // kept of the last text, ascending; empty: nothing is
  std::vector<float> queries;        // [tokens, heads kept, key_dim], not yet scaled
  std::vector<float> outputs;        // [tokens, heads kept, value_dim] of the fused kernel
  std::vector<int64_t> first, last;  // [tokens] slots first <= j < last are seen, and those below facts.sink_slots
  bool Sees(size_t query, size_t key) const {
    const auto j = static_cast<int64_t>(key);
    return j < last[query] && (j >= first[query] || j < facts.sink_slots);
  }
};

class AttentionCapture : public StepTap {
 public:
  std::vector<CapturedLayer> layers;  // in the order of the model
  void Want(size_t index, const std::vector<size_t>& heads, size_t tokens);
  void Forget(size_t index);  // gives its memory back

  bool WantsStream(int) const override { return false; }
  bool WantsAttention(size_t index) const override { return !layers[index].heads.empty(); }
  Status TakeStream(const TappedStream&) override { return Status(); }
  Status TakeAttention(TappedAttention& attention) override;
};

struct CaptureOptions {
  size_t threads = 0;
  size_t chunk_tokens = 512;
  size_t page_tokens = 64;
  CacheType key_type = CacheType::kF32, value_type = CacheType::kF32;
  bool exact = false;
  size_t window = 0, sinks = 0;  // SparseAttention
  std::string variant = {}, packed_cache = {}, float_provider = {};
  std::function<bool(uint64_t done, uint64_t total)> progress = {};
};

class CapturedModel {
 public:
  // Errors as moonlit_model_load's.
  static Result<std::unique_ptr<CapturedModel>> Open(const std::string& path, const LoadOptions& load,
                                                     const CaptureOptions& options);
  const ModelFacts& facts() const { return model_.facts; }
  const Tokenizer& tokenizer() const { return *model_.tokenizer; }
  const CaptureOptions& options() const { return options_; }
  Variant variant() const { return variant_; }
  ThreadPool& pool() { return *pool_; }
  AttentionCapture& capture() { return capture_; }
  // Reads a text from its beginning. `go_on` is asked between chunks; false gives kCancelled. Errors: kInvalidArgument (no tokens, one
  // outside the vocabulary, more at once than an encoder takes), kOutOfMemory.
  Status Read(const std::vector<int32_t>& ids, const std::function<bool()>& go_on = {});
  // Of the text that was read, [tokens, dim], as the cache holds them.
  std::vector<float> Keys(size_t index, size_t kv_head) const { return Unpack(index, kv_head, true); }
  std::vector<float> Values(size_t index, size_t kv_head) const { return Unpack(index, kv_head, false); }

 private:
  Status ReadChunk(std::span<const int32_t> tokens);
  std::vector<float> Unpack(size_t index, size_t kv_head, bool keys) const;
  LoadedModel model_;
  CaptureOptions options_;
  Variant variant_{};
  AttentionCapture capture_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<PagePool> pages_;
  std::optional<Sequence> sequence_;  // of pages_
};

}  // namespace moonlit::cli
