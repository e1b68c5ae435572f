// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/ops/tap_points.h"

#include <algorithm>

#include "runtime/exec/ops/attention_geometry.h"
#include "runtime/exec/ops/attention_weights.h"

namespace moonlit {
namespace {

class StreamTap : public TapPoint {
 public:
  StreamTap(const Bindings& b, int layer, ValueId stream)
      : b_(b), layer_(layer), width_(b.graph->values()[stream].width), rows_(b.values[stream]) {}

  bool Wanted() const override {
    const auto wants = [&](const StepSpan& span) { return span.tap != nullptr && span.tap->WantsStream(layer_); };
    return std::any_of(b_.step->spans().begin(), b_.step->spans().end(), wants);
  }

  Status Show(AbortFlags) override {
    for (size_t s = 0; s < b_.step->spans().size(); ++s) {
      const StepSpan& span = b_.step->spans()[s];
      if (span.tap == nullptr || !span.tap->WantsStream(layer_)) continue;
      const float* values = rows_.row(b_.step->span_row(s));
      MOONLIT_RETURN_IF_ERROR(
          span.tap->TakeStream({layer_, s, span.first_slot, span.tokens.size(), width_, values, rows_.stride}));
    }
    return Status();
  }

 private:
  const Bindings& b_;
  int layer_;
  size_t width_;
  FloatRows rows_;
};

class AttentionTap : public TapPoint {
 public:
  AttentionTap(const Bindings& b, const FusedStage& stage)
      : b_(b),
        geometry_(*b.attention_places[stage.attention_index].geometry),
        index_(stage.attention_index),
        q_(b.values[stage.input]),
        out_(b.values[stage.output]),
        weights_(b, stage) {}

  bool Wanted() const override {
    const auto wants = [&](const StepSpan& span) { return span.tap != nullptr && span.tap->WantsAttention(index_); };
    return std::any_of(b_.step->spans().begin(), b_.step->spans().end(), wants);
  }

  Status Show(AbortFlags abort) override {
    Status status;
    for (size_t s = 0; s < b_.step->spans().size() && status.ok(); ++s) {
      const StepSpan& span = b_.step->spans()[s];
      if (span.tap == nullptr || !span.tap->WantsAttention(index_)) continue;
      View view(*this, s, abort);
      status = span.tap->TakeAttention(view);
    }
    weights_.Forget();
    return status;
  }

 private:
  class View : public TappedAttention {
   public:
    View(AttentionTap& tap, size_t number, AbortFlags abort) : tap_(tap), abort_(abort) {
      index = tap.index_, span = number;
      first_slot = Span().first_slot, tokens = Span().tokens.size();
    }
    const float* Query(size_t token) const override { return tap_.q_.row(Row(token)); }
    const float* Output(size_t token) const override { return tap_.out_.row(Row(token)); }
    SlotInterval Sees(size_t token) const override {
      return tap_.geometry_.Visible(Span(), first_slot + static_cast<int64_t>(token));
    }
    Status Weights(size_t head, size_t first, size_t count, size_t width, float* out) override {
      return tap_.weights_.Compute(span, head, first, count, width, out, abort_);
    }

   private:
    const StepSpan& Span() const { return tap_.b_.step->spans()[span]; }
    size_t Row(size_t token) const { return tap_.b_.step->span_row(span) + token; }
    AttentionTap& tap_;
    AbortFlags abort_;
  };

  const Bindings& b_;
  const AttentionGeometry& geometry_;
  size_t index_;
  FloatRows q_, out_;
  AttentionWeights weights_;
};

}  // namespace

std::unique_ptr<TapPoint> MakeStreamTap(const Bindings& bindings, int layer, ValueId stream) {
  return std::make_unique<StreamTap>(bindings, layer, stream);
}

std::unique_ptr<TapPoint> MakeAttentionTap(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<AttentionTap>(bindings, stage);
}

TappedLayer DescribeAttention(const Bindings& b, const FusedStage& stage) {
  const Bindings::AttentionPlace& place = b.attention_places[stage.attention_index];
  const AttentionSpec& spec = stage.attention;
  const float* sinks = spec.sinks == kNoWeight ? nullptr : b.weights->vector(spec.sinks);
  return {
      stage.layer, spec.heads, &spec, sinks, place.layout, place.group, place.layer_in_group, place.geometry->sinks()};
}

bool WritesFloats(const FusedStage& stage, ValueId v) {
  if (stage.kind == StageKind::kActivate || stage.kind == StageKind::kQkvPost) return false;
  const auto writes = [v](const ProductPart& part) { return part.output == v; };
  return stage.output == v || std::any_of(stage.parts.begin(), stage.parts.end(), writes);
}

}  // namespace moonlit
