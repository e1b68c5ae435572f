// SPDX-License-Identifier: Apache-2.0
// Add and Gate where no product takes them as an epilogue; Scale, SigmoidGate.
#include "runtime/exec/stage.h"

namespace moonlit {
namespace {

class ElementwiseStage : public ExecStage {
 public:
  ElementwiseStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        tail_(stage.tail),
        kind_(stage.kind),
        factor_(stage.factor),
        width_(b.graph->values()[stage.output].width),
        left_(b.values[stage.input]),
        right_(stage.input_b == kNoValue ? FloatRows{} : b.values[stage.input_b]),
        out_(b.values[stage.output]) {}

  size_t Begin() override {
    rows_ = b_.step->range(tail_);
    return rows_.count();
  }

  void Run(size_t task, size_t) override {
    const size_t row = rows_.first + task;
    if (kind_ == StageKind::kScale) return b_.activations->scale(left_.row(row), factor_, out_.row(row), width_);
    if (kind_ == StageKind::kSigmoidGate) {
      float factor;
      b_.activations->sigmoid(left_.row(row), &factor, 1);
      return b_.activations->scale(right_.row(row), factor, out_.row(row), width_);
    }
    const auto function = kind_ == StageKind::kAdd ? b_.activations->add : b_.activations->swiglu;
    function(left_.row(row), right_.row(row), out_.row(row), width_);
  }

  std::string Describe() const override { return StageKindName(kind_); }

 private:
  const Bindings& b_;
  bool tail_;
  StageKind kind_;
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
