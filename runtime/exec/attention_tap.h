// SPDX-License-Identifier: Apache-2.0
// Looks on while a plan attends: the query and the output of every token in the fused kernel's layers, and where the cache has the keys
// and values that it reads. For viewers and statistics; it changes no bit of what the plan computes.
//
//   PlanOptions options{...};
//   options.attention_tap = &tap;   // Plan::Create calls AddLayer once a layer, in the order of the graph
//   plan->Run(spans, nullptr);      // calls Take for every token of the layers that Wants names, from the pool's threads
//
// The table of weights is not among it, since the kernel has none: softmax(scale * q . k + mask), with the keys that UnpackKey
// (kernels/attention/attention.h) reads from the pages afterwards, gives it. tools/cli/attention_heads.h does so.
//
// This is the first tap. Its seam is general: a stage without arithmetic behind the one that has the rows (ops/attention_tap.cc), which
// hands out pointers into the arena while they are alive there. Another kind of row (hidden states behind a layer) is another such
// stage. With a tap every row goes through all layers, so that outputs need not be asked for to see the last one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/page_layout.h"
#include "runtime/graph/graph.h"

namespace moonlit {

// What stays of a layer. Pointers live as long as the plan.
struct TappedLayer {
  int layer;                  // Graph::SetLayer's number
  const AttentionSpec* spec;  // as the plan runs it
  const float* sinks;         // [heads] logits, or null
  const PageLayout* layout;   // of the cache group
  size_t group;               // StepSpan::pages
  size_t layer_in_group;      // PagePartOffset; where the layer shares an earlier one's keys, that one's
  int64_t sink_slots;         // slots below it are seen beside the interval (SparseAttention::sinks)
};

// One token in one layer. Pointers are valid during the call.
struct TappedRow {
  size_t index;      // of the layer, in the order of AddLayer
  size_t span;       // of the step
  size_t token;      // of the span
  const float* q;    // [heads, key_dim] after head norms, RoPE and temperature; AttentionSpec::scale is still to come
  const float* out;  // [heads, value_dim]
  int64_t slot;      // the token's own
  int64_t first;     // it sees slots first <= j < last, and j < sink_slots
  int64_t last;
};

class AttentionTap {
 public:
  virtual ~AttentionTap() = default;
  virtual void AddLayer(const TappedLayer& layer) = 0;
  // Asked once a step for every layer, from the thread that calls Run.
  virtual bool Wants(size_t index) const = 0;
  // From any thread of the pool, for different tokens at the same time. Must not throw.
  virtual void Take(const TappedRow& row) = 0;
};

}  // namespace moonlit
