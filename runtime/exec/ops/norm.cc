// SPDX-License-Identifier: Apache-2.0
// Norms, alone (kNorm) and as the way into products (kActivate, the head): rows -> norm -> the forms that the products read.
// A row is normalised into its float form if a product wants that, else into scratch, and quantized while it is in L1.
#include <algorithm>
#include <optional>

#include "runtime/exec/stage.h"

namespace moonlit {
namespace {

constexpr size_t kFloatsPerTask = 16384;

size_t RowsPerTask(size_t width) { return std::max<size_t>(1, kFloatsPerTask / width); }

// A norm with its kernel and weights; or none.
class BoundNorm {
 public:
  BoundNorm(const Bindings& b, const std::optional<NormSpec>& spec, size_t width) {
    if (!spec) return;
    function_ = spec->kind == NormKind::kRms ? b.norms->rms_norm_rows : b.norms->layer_norm_rows;
    eps_ = spec->eps;
    heads_ = spec->heads;
    part_ = width / heads_;
    const auto is_whole = [&](WeightId id) {
      return id != kNoWeight && b.graph->weights()[id].shape.elements() == width;
    };
    weight_ = b.weights->vector(spec->weight);
    bias_ = b.weights->vector(spec->bias);
    weight_step_ = is_whole(spec->weight) ? part_ : 0;
    bias_step_ = is_whole(spec->bias) ? part_ : 0;
  }

  explicit operator bool() const { return function_ != nullptr; }

  void Apply(const float* x, size_t x_stride, size_t rows, float* out, size_t out_stride) const {
    for (size_t head = 0; head < heads_; ++head) {
      function_({.x = x + head * part_,
                 .x_stride = x_stride,
                 .rows = rows,
                 .d = part_,
                 .weight = weight_ == nullptr ? nullptr : weight_ + head * weight_step_,
                 .bias = bias_ == nullptr ? nullptr : bias_ + head * bias_step_,
                 .eps = eps_,
                 .out = out + head * part_,
                 .out_stride = out_stride});
    }
  }

 private:
  void (*function_)(const NormArgs&) = nullptr;
  float eps_ = 0;
  size_t heads_ = 1, part_ = 0;
  const float* weight_ = nullptr;
  const float* bias_ = nullptr;
  size_t weight_step_ = 0, bias_step_ = 0;  // 0: all heads have one
};

// One row into the forms of `out`. Without a norm: the input as it is, whose float form is shared and not copied.
void ActivateRow(const Bindings& b, const float* x, const BoundNorm& norm, const ProductInput& out, size_t row,
                 float* scratch) {
  const float* floats = x;
  if (norm) {
    float* y = out.wants_floats ? out.floats.row(row) : scratch;
    norm.Apply(x, out.width, 1, y, out.width);
    floats = y;
  }
  if (out.wants_a8) b.products->quantize_a8(floats, out.width, 1, out.width, A8From(out.a8, row, 0));
  if (out.wants_two_terms) {
    b.products->quantize_a8_twice(floats, out.width, 1, out.width, A8From(out.two_terms, 2 * row, 0));
  }
}

class ActivateStage : public ExecStage {
 public:
  ActivateStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        tail_(stage.tail),
        in_(b.values[stage.input]),
        norm_(b, stage.norm, b.inputs[stage.output].width),
        out_(b.inputs[stage.output]),
        per_task_(RowsPerTask(out_.width)) {}

  size_t Begin() override {
    // Without a norm only a quantization is left; a gated stage may have done it already (its value has no floats then).
    const bool quantizes = out_.wants_a8 || out_.wants_two_terms;
    const bool nothing = !norm_ && (!quantizes || in_.data == nullptr);
    rows_ = b_.step->range(tail_);
    return nothing ? 0 : CeilDiv(rows_.count(), per_task_);
  }

  void Run(size_t task, size_t thread) override {
    const size_t first = rows_.first + task * per_task_;
    const size_t end = std::min(rows_.end, first + per_task_);
    for (size_t row = first; row < end; ++row) {
      ActivateRow(b_, in_.row(row), norm_, out_, row, b_.scratch.floats(thread));
    }
  }

  std::string Describe() const override {
    return std::string("activate") + (norm_ ? " norm" : "") + (out_.wants_a8 ? " a8" : "") +
           (out_.wants_two_terms ? " 2 x a8" : "") + (out_.wants_floats ? " f32" : "");
  }

 private:
  const Bindings& b_;
  bool tail_;
  FloatRows in_;
  BoundNorm norm_;
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
        norm_(b, stage.norm, width_) {}

  size_t Begin() override {
    rows_ = b_.step->range(tail_);
    return CeilDiv(rows_.count(), RowsPerTask(width_));
  }

  void Run(size_t task, size_t) override {
    const size_t first = rows_.first + task * RowsPerTask(width_);
    const size_t rows = std::min(rows_.end - first, RowsPerTask(width_));
    norm_.Apply(in_.row(first), in_.stride, rows, out_.row(first), out_.stride);
  }

  std::string Describe() const override { return "norm"; }

 private:
  const Bindings& b_;
  bool tail_;
  size_t width_;
  FloatRows in_, out_;
  BoundNorm norm_;
  RowRange rows_{};
};

// The wanted rows of the head's current block, gathered.
class HeadInputStage : public ExecStage {
 public:
  HeadInputStage(const Bindings& b, const FusedStage& stage)
      : b_(b), in_(b.values[stage.input]), norm_(b, stage.norm, b.head_input.width) {}

  size_t Begin() override { return b_.step->head_rows; }

  void Run(size_t task, size_t thread) override {
    const float* x = in_.row(b_.step->wanted()[b_.step->head_first + task].row);
    const ProductInput& out = b_.head_input;
    ActivateRow(b_, x, norm_, out, task, b_.scratch.floats(thread));
    if (!norm_ && out.wants_floats) std::copy(x, x + out.width, out.floats.row(task));
  }

  std::string Describe() const override { return "head_input"; }

 private:
  const Bindings& b_;
  FloatRows in_;
  BoundNorm norm_;
};

// The same rows as hidden states: normalised, and without the factor that a model may have for its logits alone.
class HiddenRowsStage : public ExecStage {
 public:
  HiddenRowsStage(const Bindings& b, const FusedStage& stage)
      : b_(b), width_(b.head_input.width), in_(b.values[stage.input]), norm_(b, stage.norm, width_) {
    const Node& producer = b.graph->nodes()[b.graph->values()[stage.input].producer];
    if (stage.norm || producer.op != Op::kScale || !producer.weights.empty()) return;
    factor_ = 1 / std::get<ScaleAttributes>(producer.attributes).factor;
  }

  size_t Begin() override { return b_.step->head_rows; }

  void Run(size_t task, size_t) override {
    const float* x = in_.row(b_.step->wanted()[b_.step->head_first + task].row);
    float* out = b_.hidden.row(task);
    if (norm_) return norm_.Apply(x, width_, 1, out, width_);
    if (factor_ != 1) return b_.activations->scale(x, factor_, out, width_);
    std::copy(x, x + width_, out);
  }

  std::string Describe() const override { return "hidden_rows"; }

 private:
  const Bindings& b_;
  size_t width_;
  FloatRows in_;
  BoundNorm norm_;
  float factor_ = 1;
};

}  // namespace

std::unique_ptr<ExecStage> MakeActivateStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<ActivateStage>(bindings, stage);
}
std::unique_ptr<ExecStage> MakeNormStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<NormStage>(bindings, stage);
}
std::unique_ptr<ExecStage> MakeHiddenRowsStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<HiddenRowsStage>(bindings, stage);
}
std::unique_ptr<ExecStage> MakeHeadInputStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<HeadInputStage>(bindings, stage);
}

}  // namespace moonlit
