// SPDX-License-Identifier: Apache-2.0
// Add and Gate where no product takes them as an epilogue.
#include "runtime/exec/stage.h"

namespace moonlit {
namespace {

class ElementwiseStage : public ExecStage {
 public:
  ElementwiseStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        tail_(stage.tail),
        is_add_(stage.kind == StageKind::kAdd),
        width_(b.graph->values()[stage.output].width),
        left_(b.values[stage.input]),
        right_(b.values[stage.input_b]),
        out_(b.values[stage.output]) {}

  size_t Begin() override {
    rows_ = b_.step->range(tail_);
    return rows_.count();
  }

  void Run(size_t task, size_t) override {
    const size_t row = rows_.first + task;
    const auto function = is_add_ ? b_.activations->add : b_.activations->swiglu;
    function(left_.row(row), right_.row(row), out_.row(row), width_);
  }

  std::string Describe() const override { return is_add_ ? "add" : "gate"; }

 private:
  const Bindings& b_;
  bool tail_;
  bool is_add_;
  size_t width_;
  FloatRows left_, right_, out_;
  RowRange rows_{};
};

}  // namespace

std::unique_ptr<ExecStage> MakeElementwiseStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<ElementwiseStage>(bindings, stage);
}

}  // namespace moonlit
