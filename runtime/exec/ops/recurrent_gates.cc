// SPDX-License-Identifier: Apache-2.0
// The gates of a recurrence, row by row: decays and sigmoids.
#include "runtime/exec/stage.h"

namespace moonlit {
namespace {

class GatesStage : public ExecStage {
 public:
  GatesStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        kind_(stage.kind),
        tail_(stage.tail),
        width_(b.graph->values()[stage.output].width),
        in_(b.values[stage.input]),
        out_(b.values[stage.output]) {
    if (kind_ != StageKind::kDecay) return;
    rate_ = b.weights->vector(stage.parts[0].weight);
    bias_ = b.weights->vector(stage.parts[0].bias);
  }

  size_t Begin() override {
    rows_ = b_.step->range(tail_);
    return rows_.count();
  }

  void Run(size_t task, size_t) override {
    const size_t row = rows_.first + task;
    if (kind_ == StageKind::kSigmoid) return b_.activations->sigmoid(in_.row(row), out_.row(row), width_);
    b_.recurrent->decay(in_.row(row), rate_, bias_, out_.row(row), width_);
  }

  std::string Describe() const override { return StageKindName(kind_); }

 private:
  const Bindings& b_;
  StageKind kind_;
  bool tail_;
  size_t width_;
  FloatRows in_, out_;
  const float* rate_ = nullptr;
  const float* bias_ = nullptr;
  RowRange rows_{};
};

}  // namespace

std::unique_ptr<ExecStage> MakeGatesStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<GatesStage>(bindings, stage);
}

}  // namespace moonlit
