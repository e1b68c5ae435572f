// SPDX-License-Identifier: Apache-2.0
// Who looks on at a span of a step: the residual stream behind each layer, and queries, outputs and weights of attention layers. For
// viewers and statistics; it changes no bit of what the plan computes.
//
//   StepSpan span{...};
//   span.tap = &tap;                  // nobody looks on at a span without one
//   plan->Run({&span, 1}, nullptr);   // calls TakeStream and TakeAttention
//
// A step with a tap stops behind what somebody wants to see, and hands it out from the thread that called Run, while the pool is idle: in
// the order of the graph (a layer's attention, then its stream), spans in their order. A step without one is a single walk of the pool, as
// if there were no taps. Where a step has a tap, every row goes through all layers, so that outputs need not be asked for to see the last
// one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/page_layout.h"
#include "runtime/base/status.h"

namespace moonlit {

struct AttentionSpec;  // runtime/graph/graph.h

// Slots [first, last) that a token sees.
struct SlotInterval {
  int64_t first, last;
};

// An attention layer, as Plan::attention_layers has it. Pointers live as long as the plan.
struct TappedLayer {
  int layer;                  // Graph::SetLayer's number
  size_t heads;               // of queries
  const AttentionSpec* spec;  // as the plan runs it
  const float* sinks;         // [heads] logits, or null
  const PageLayout* layout;   // of the cache group
  size_t group;               // StepSpan::pages
  size_t layer_in_group;      // PagePartOffset; where the layer shares an earlier one's keys, that one's
  int64_t sink_slots;         // slots below it are seen beside the interval (SparseAttention::sinks)
};

// What the layer leaves in the residual stream for all tokens of a span. Valid during the call.
struct TappedStream {
  int layer;
  size_t span;         // of the step
  int64_t first_slot;  // of the first row
  size_t rows, width;
  const float* values;  // row r begins at values + r * stride
  size_t stride;
};

// A span's tokens in one attention layer. Valid during the call.
class TappedAttention {
 public:
  virtual ~TappedAttention() = default;
  size_t index = 0;        // in Plan::attention_layers
  size_t span = 0;         // of the step
  int64_t first_slot = 0;  // of token 0
  size_t tokens = 0;       // of the span

  virtual const float* Query(
      size_t token) const = 0;  // [heads, key_dim] after head norms, RoPE and temperature; not yet scaled
  virtual const float* Output(size_t token) const = 0;  // [heads, value_dim] of the fused kernel
  virtual SlotInterval Sees(size_t token) const = 0;    // and slots j < sink_slots, j < last
  // The table that the fused kernel never stores: softmax(scale * q . k + mask) by kernels/pairs and kernels/softmax, with the keys as the
  // cache has them, for tokens [first, first + count) of one head. out: [count, width], column j is slot j; width: at least what the last of
  // them sees. What a token does not see has weight 0; rows sum to 1, or to less by the share of a learned sink. A row's bits depend on its
  // query and the keys alone. Takes memory for the keys of one KV head as floats: kOutOfMemory; kCancelled.
  virtual Status Weights(size_t head, size_t first, size_t count, size_t width, float* out) = 0;
};

class StepTap {
 public:
  virtual ~StepTap() = default;
  // Asked for every layer of a step, before anything behind it runs.
  virtual bool WantsStream(int layer) const = 0;
  virtual bool WantsAttention(size_t index) const = 0;
  // What is not OK ends the step with it. Must not throw, nor run another step of the plan.
  virtual Status TakeStream(const TappedStream& stream) = 0;
  virtual Status TakeAttention(TappedAttention& attention) = 0;
};

}  // namespace moonlit
