// SPDX-License-Identifier: Apache-2.0
// Places behind stages of a plan where a step stops for who looks on (step_tap.h): what lies in the arena there is handed out before the
// next stage runs.
#pragma once

#include <memory>

#include "runtime/exec/bindings.h"
#include "runtime/exec/step_tap.h"

namespace moonlit {

class TapPoint {
 public:
  virtual ~TapPoint() = default;
  // Whether the tap of some span of the step wants it.
  virtual bool Wanted() const = 0;
  // Hands it to every tap that does. The stages before have run, and the pool is idle.
  virtual Status Show(AbortFlags abort) = 0;
};

// Behind the stage that writes `stream`. Both keep pointers into `bindings` (and `stage`), which outlive them.
std::unique_ptr<TapPoint> MakeStreamTap(const Bindings& bindings, int layer, ValueId stream);
// Behind an attention layer and its merge.
std::unique_ptr<TapPoint> MakeAttentionTap(const Bindings& bindings, const FusedStage& stage);
TappedLayer DescribeAttention(const Bindings& bindings, const FusedStage& stage);

// Whether the stage writes v as floats.
bool WritesFloats(const FusedStage& stage, ValueId v);

}  // namespace moonlit
