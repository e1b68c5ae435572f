// SPDX-License-Identifier: Apache-2.0
// RMS norm, alone (kNorm) and as the way into products (kActivate, the head): rows -> norm -> the forms that the products read.
// A row is normalised into its float form if a product wants that, else into scratch, and quantized while it is in L1.
#include <algorithm>

#include "runtime/exec/stage.h"

namespace moonlit {
namespace {

constexpr size_t kFloatsPerTask = 16384;

size_t RowsPerTask(size_t width) { return std::max<size_t>(1, kFloatsPerTask / width); }

// One row into the forms of `out`. `norm` null: the input as it is, whose float form is shared and not copied.
void ActivateRow(const Bindings& b, const float* x, const float* norm, float eps, const ProductInput& out, size_t row,
                 float* scratch) {
  const float* floats = x;
  if (norm != nullptr) {
    float* y = out.wants_floats ? out.floats.row(row) : scratch;
    b.norms->rms_norm_rows({.x = x,
                            .x_stride = out.width,
                            .rows = 1,
                            .d = out.width,
                            .weight = norm,
                            .bias = nullptr,
                            .eps = eps,
                            .out = y,
                            .out_stride = out.width});
    floats = y;
  }
  if (out.wants_a8) b.products->quantize_a8(floats, out.width, 1, out.width, A8From(out.a8, row, 0));
}

class ActivateStage : public ExecStage {
 public:
  ActivateStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        tail_(stage.tail),
        in_(b.values[stage.input]),
        norm_(b.weights->vector(stage.norm)),
        eps_(stage.eps),
        out_(b.inputs[stage.output]),
        per_task_(RowsPerTask(out_.width)) {}

  size_t Begin() override {
    // Without a norm only a quantization is left; a gated stage may have done it already (its value has no floats then).
    const bool nothing = norm_ == nullptr && (!out_.wants_a8 || in_.data == nullptr);
    rows_ = b_.step->range(tail_);
    return nothing ? 0 : CeilDiv(rows_.count(), per_task_);
  }

  void Run(size_t task, size_t thread) override {
    const size_t first = rows_.first + task * per_task_;
    const size_t end = std::min(rows_.end, first + per_task_);
    for (size_t row = first; row < end; ++row) {
      ActivateRow(b_, in_.row(row), norm_, eps_, out_, row, b_.scratch.floats(thread));
    }
  }

  std::string Describe() const override {
    return std::string("activate") + (norm_ ? " norm" : "") + (out_.wants_a8 ? " a8" : "") +
           (out_.wants_floats ? " f32" : "");
  }

 private:
  const Bindings& b_;
  bool tail_;
  FloatRows in_;
  const float* norm_;
  float eps_;
  const ProductInput& out_;
  size_t per_task_;
  RowRange rows_{};
};

class NormStage : public ExecStage {
 public:
  NormStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        tail_(stage.tail),
        width_(b.graph->values()[stage.output].width),
        in_(b.values[stage.input]),
        out_(b.values[stage.output]),
        norm_(b.weights->vector(stage.norm)),
        eps_(stage.eps) {}

  size_t Begin() override {
    rows_ = b_.step->range(tail_);
    return CeilDiv(rows_.count(), RowsPerTask(width_));
  }

  void Run(size_t task, size_t) override {
    const size_t first = rows_.first + task * RowsPerTask(width_);
    const size_t rows = std::min(rows_.end - first, RowsPerTask(width_));
    b_.norms->rms_norm_rows({.x = in_.row(first),
                             .x_stride = in_.stride,
                             .rows = rows,
                             .d = width_,
                             .weight = norm_,
                             .bias = nullptr,
                             .eps = eps_,
                             .out = out_.row(first),
                             .out_stride = out_.stride});
  }

  std::string Describe() const override { return "norm"; }

 private:
  const Bindings& b_;
  bool tail_;
  size_t width_;
  FloatRows in_, out_;
  const float* norm_;
  float eps_;
  RowRange rows_{};
};

// The wanted rows of the head's current block, gathered.
class HeadInputStage : public ExecStage {
 public:
  HeadInputStage(const Bindings& b, const FusedStage& stage)
      : b_(b), in_(b.values[stage.input]), norm_(b.weights->vector(stage.norm)), eps_(stage.eps) {}

  size_t Begin() override { return b_.step->head_rows; }

  void Run(size_t task, size_t thread) override {
    const float* x = in_.row(b_.step->wanted()[b_.step->head_first + task].row);
    const ProductInput& out = b_.head_input;
    ActivateRow(b_, x, norm_, eps_, out, task, b_.scratch.floats(thread));
    if (norm_ == nullptr && out.wants_floats) std::copy(x, x + out.width, out.floats.row(task));
  }

  std::string Describe() const override { return "head_input"; }

 private:
  const Bindings& b_;
  FloatRows in_;
  const float* norm_;
  float eps_;
};

}  // namespace

std::unique_ptr<ExecStage> MakeActivateStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<ActivateStage>(bindings, stage);
}
std::unique_ptr<ExecStage> MakeNormStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<NormStage>(bindings, stage);
}
std::unique_ptr<ExecStage> MakeHeadInputStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<HeadInputStage>(bindings, stage);
}

}  // namespace moonlit
