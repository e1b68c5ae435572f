// SPDX-License-Identifier: Apache-2.0
// Queries as they would have been rotated some positions further on: for keys of a run that stands elsewhere than the span's
// queries take it to be (StepSpan::runs).
#pragma once

#include <cstdint>

#include "runtime/exec/bindings.h"
#include "runtime/exec/ops/attention_geometry.h"

namespace moonlit {

class QueryTurn {
 public:
  // `thread`: whose scratch holds the turned queries, until the next QueryTurn there. turn 0, and a layer that does not rotate,
  // leave queries as they are.
  QueryTurn(const Bindings& bindings, const AttentionSpec& spec, const Bindings::AttentionPlace& place, int64_t turn,
            size_t thread);
  // [key_dim] of the call's row r.
  const float* Of(const float* query, size_t r) const;

 private:
  const Bindings& b_;
  const AttentionSpec& spec_;
  RunScratch scratch_;
  bool turned_;
};

// A thread's memory behind the kernel's own.
RunScratch ScratchOfRuns(const Bindings& bindings, const PageLayout& layout, size_t thread);

}  // namespace moonlit
