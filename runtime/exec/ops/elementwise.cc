// SPDX-License-Identifier: Apache-2.0
// Ops on single elements of rows: Add, Gate and Activation where no product takes them as an epilogue; Scale, Clamp, Columns,
// SigmoidGate.
#include <algorithm>

#include "runtime/exec/ops/activate.h"
#include "runtime/exec/stage.h"

namespace moonlit {
namespace {

class ElementwiseStage : public ExecStage {
 public:
  ElementwiseStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        stage_(stage),
        factor_(stage.factor),
        width_(b.graph->values()[stage.output].width),
        left_(b.values[stage.input]),
        right_(stage.input_b == kNoValue ? FloatRows{} : b.values[stage.input_b]),
        out_(b.values[stage.output]) {
    if (stage.factor_weight != kNoWeight) factor_ *= b.weights->vector(stage.factor_weight)[0];
  }

  size_t Begin() override {
    rows_ = b_.step->range(stage_.tail);
    return rows_.count();
  }

  void Run(size_t task, size_t) override {
    const size_t row = rows_.first + task;
    const float* left = left_.row(row);
    float* out = out_.row(row);
    const ActivationTable& table = *b_.activations;
    switch (stage_.kind) {
      case StageKind::kScale:
        return table.scale(left, factor_, out, width_);
      case StageKind::kClamp:
        return table.clamp(left, factor_, out, width_);
      case StageKind::kColumns:
        std::copy_n(left + stage_.first_column, width_, out);
        return;
      case StageKind::kSigmoidGate: {
        float factor;
        table.sigmoid(left, &factor, 1);
        return table.scale(right_.row(row), factor, out, width_);
      }
      case StageKind::kActivation:
        return Activate(table, stage_.gate, left, out, width_);
      case StageKind::kGate:
        return ActivateGate(table, stage_.gate, left, right_.row(row), out, width_);
      default:
        return table.add(left, right_.row(row), out, width_);
    }
  }

  std::string Describe() const override { return StageKindName(stage_.kind); }

 private:
  const Bindings& b_;
  FusedStage stage_;
  float factor_;
  size_t width_;
  FloatRows left_, right_, out_;
  RowRange rows_{};
};

}  // namespace

std::unique_ptr<ExecStage> MakeElementwiseStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<ElementwiseStage>(bindings, stage);
}

}  // namespace moonlit
