// SPDX-License-Identifier: Apache-2.0
// Layers with a state instead of a cache: linear attention and the gated delta rule (a task is a span and a value head), and the
// short convolution before them (a task is a span and a run of channels). A task copies its part of the state to where the step
// leaves it and works there, so that the state before the step stays as it was.
#include <algorithm>
#include <cstring>

#include "runtime/exec/stage.h"

namespace moonlit {
namespace {

static_assert(kMostRecurrentDim <= kRecurrentMostDim && kMostShortConvWidth <= kShortConvMostWidth);

constexpr size_t kChannelsPerTask = 256;

size_t HeadStateFloats(const FusedStage& stage) {
  const RecurrentSpec& spec = stage.recurrent;
  return stage.kind == StageKind::kGatedDelta ? DeltaStateFloats(spec.key_dim, spec.value_dim)
                                              : LinearStateFloats(spec.key_dim, spec.value_dim);
}

size_t ConvStride(size_t channels) { return RecurrentPadded(channels); }
uint64_t ConvRows(uint64_t width) {
  return std::max<uint64_t>(width - 1, 1);
}  // never nothing: it is then a stage with a state

// The part [offset, offset + floats) of the span's next state, as it was before the step.
float* BeginState(const StepSpan& span, size_t offset, size_t floats) {
  float* next = span.next_state + offset;
  if (span.state == nullptr) {
    std::fill(next, next + floats, 0.0f);
  } else {
    std::memcpy(next, span.state + offset, floats * sizeof(float));
  }
  return next;
}

class RecurrentStage : public ExecStage {
 public:
  RecurrentStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        spec_(stage.recurrent),
        delta_(stage.kind == StageKind::kGatedDelta),
        offset_(b.state_offsets[stage.state_index]),
        head_floats_(HeadStateFloats(stage)),
        q_(b.values[stage.input]),
        k_(b.values[stage.input_b]),
        v_(b.values[stage.input_c]),
        out_(b.values[stage.output]) {
    if (!delta_) return;
    decay_ = b.values[stage.input_d];
    beta_ = b.values[stage.input_e];
  }

  size_t Begin() override { return b_.step->spans().size() * spec_.value_heads; }

  void Run(size_t task, size_t thread) override {
    const StepSpan& span = b_.step->spans()[task / spec_.value_heads];
    const size_t row = b_.step->span_row(task / spec_.value_heads);
    const size_t head = task % spec_.value_heads;
    const size_t group = spec_.value_heads / spec_.key_heads;
    const size_t key_head = spec_.order == HeadOrder::kGrouped ? head / group : head % spec_.key_heads;
    RecurrentArgs args = {};
    args.tokens = span.tokens.size();
    args.position = span.first_slot;
    args.key_dim = spec_.key_dim;
    args.value_dim = spec_.value_dim;
    args.q = q_.row(row) + spec_.q_first + key_head * spec_.key_dim;
    args.q_stride = q_.stride;
    args.k = k_.row(row) + spec_.k_first + key_head * spec_.key_dim;
    args.k_stride = k_.stride;
    args.v = v_.row(row) + spec_.v_first + head * spec_.value_dim;
    args.v_stride = v_.stride;
    args.out = out_.row(row) + head * spec_.value_dim;
    args.out_stride = out_.stride;
    args.state = BeginState(span, offset_ + head * head_floats_, head_floats_);
    args.scratch = b_.scratch.floats(thread);
    args.eps = spec_.eps;
    if (!delta_) return b_.recurrent->linear_attention(args);
    args.decay = decay_.row(row) + head;
    args.beta = beta_.row(row) + head;
    args.gate_stride = decay_.stride;
    args.normalise = spec_.normalise;
    args.scale = spec_.scale;
    b_.recurrent->gated_delta(args);
  }

  std::string Describe() const override {
    return std::string(delta_ ? "gated_delta" : "linear_attention") + " heads " + std::to_string(spec_.value_heads) +
           "/" + std::to_string(spec_.key_heads) + " dims " + std::to_string(spec_.key_dim) + "/" +
           std::to_string(spec_.value_dim);
  }

 private:
  const Bindings& b_;
  RecurrentSpec spec_;
  bool delta_;
  size_t offset_, head_floats_;
  FloatRows q_, k_, v_, out_, decay_, beta_;
};

class ShortConvStage : public ExecStage {
 public:
  ShortConvStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        silu_(stage.silu),
        channels_(b.graph->values()[stage.input].width),
        width_(b.graph->weights()[stage.parts[0].weight].shape[1]),
        offset_(b.state_offsets[stage.state_index]),
        in_(b.values[stage.input]),
        out_(b.values[stage.output]),
        bias_(b.weights->vector(stage.parts[0].bias)),
        weight_(width_ * channels_) {
    const float* rows = b.weights->vector(stage.parts[0].weight);
    for (size_t c = 0; c < channels_; ++c) {
      for (size_t j = 0; j < width_; ++j) weight_[j * channels_ + c] = rows[c * width_ + j];
    }
  }

  size_t Begin() override { return b_.step->spans().size() * runs(); }

  void Run(size_t task, size_t) override {
    const StepSpan& span = b_.step->spans()[task / runs()];
    const size_t row = b_.step->span_row(task / runs());
    const size_t first = task % runs() * kChannelsPerTask;
    const size_t stride = ConvStride(channels_);
    ShortConvArgs args = {};
    args.tokens = span.tokens.size();
    args.channels = std::min(kChannelsPerTask, channels_ - first);
    args.width = width_;
    args.x = in_.row(row) + first;
    args.x_stride = in_.stride;
    args.weight = weight_.data() + first;
    args.weight_stride = channels_;
    args.bias = bias_ == nullptr ? nullptr : bias_ + first;
    args.out = out_.row(row) + first;
    args.out_stride = out_.stride;
    // With the padding of the rows, so that nothing of the slot's last owner stays in it.
    const size_t floats = first + args.channels == channels_ ? stride - first : args.channels;
    for (size_t j = 0; j < ConvRows(width_); ++j) BeginState(span, offset_ + j * stride + first, floats);
    args.state = span.next_state + offset_ + first;
    args.state_stride = stride;
    b_.recurrent->short_conv(args);
    if (!silu_) return;
    for (size_t t = 0; t < args.tokens; ++t) {
      float* out = args.out + t * args.out_stride;
      b_.activations->silu(out, out, args.channels);
    }
  }

  std::string Describe() const override {
    return "short_conv " + std::to_string(channels_) + " channels, " + std::to_string(width_) + " tokens" +
           (silu_ ? ", silu" : "");
  }

 private:
  size_t runs() const { return CeilDiv(channels_, kChannelsPerTask); }
  const Bindings& b_;
  bool silu_;
  size_t channels_, width_, offset_;
  FloatRows in_, out_;
  const float* bias_;
  std::vector<float> weight_;  // [width, channels]
};

}  // namespace

uint64_t StateFloats(const Graph& graph, const FusedStage& stage) {
  switch (stage.kind) {
    case StageKind::kLinearAttention:
    case StageKind::kGatedDelta:
      return uint64_t{stage.recurrent.value_heads} * HeadStateFloats(stage);
    case StageKind::kShortConv: {
      const Shape& weight = graph.weights()[stage.parts[0].weight].shape;
      return ConvRows(weight[1]) * ConvStride(weight[0]);
    }
    default:
      return 0;
  }
}

size_t RecurrentScratch(const FusedStage& stage) {
  if (stage.kind == StageKind::kShortConv) return 0;
  return RecurrentScratchBytes(stage.recurrent.key_dim, stage.recurrent.value_dim);
}

std::unique_ptr<ExecStage> MakeRecurrentStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<RecurrentStage>(bindings, stage);
}
std::unique_ptr<ExecStage> MakeShortConvStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<ShortConvStage>(bindings, stage);
}

}  // namespace moonlit
