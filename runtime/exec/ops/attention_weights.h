// SPDX-License-Identifier: Apache-2.0
// Attention's weights in plain form, for who looks on at a layer (TappedAttention::Weights): scores by kernels/pairs over keys that are read
// back from the cache, then kernels/softmax. A row a task; queries are turned for runs of the cache that have moved, as the fused kernel's
// are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/softmax/softmax.h"
#include "runtime/exec/bindings.h"
#include "runtime/exec/step_tap.h"
#include "runtime/tensor/buffer.h"

namespace moonlit {

class AttentionWeights {
 public:
  AttentionWeights(const Bindings& bindings, const FusedStage& stage);

  // Of a span of the running step, see TappedAttention::Weights. From the thread that runs the step, behind the layer's attention.
  Status Compute(size_t span, size_t head, size_t first, size_t count, size_t width, float* out, AbortFlags abort);
  // Gives the memory back. The next step has other keys.
  void Forget();

 private:
  const StepSpan& span() const { return b_.step->spans()[span_]; }
  Status UnpackKeys(size_t kv_head, size_t width, AbortFlags abort);
  void UnpackTile(size_t tile) const;
  void ComputeRow(size_t task, size_t thread) const;
  void Score(const float* query, size_t last, size_t thread, float* row) const;
  void MaskRow(int64_t slot, SlotInterval seen, float* row) const;

  const Bindings& b_;
  const AttentionSpec& spec_;
  const Bindings::AttentionPlace& place_;
  const SoftmaxTable& softmax_;
  FloatRows q_;
  const float* sinks_;  // [heads], or null
  // Of the running call.
  size_t span_ = 0, head_ = 0, first_ = 0, width_ = 0;
  float* out_ = nullptr;
  // Keys of one KV head, [slots, key_dim], and behind them a scaled query for each thread.
  Buffer memory_;
  float* keys_ = nullptr;
  float* queries_ = nullptr;
  size_t unpacked_ = 0, unpacked_span_ = 0, unpacked_head_ = 0;  // slots; 0: none
};

}  // namespace moonlit
