// SPDX-License-Identifier: Apache-2.0
// Behind an attention layer: its queries and outputs lie in the arena until the next stage, and somebody looks at them.
#include "runtime/exec/attention_tap.h"

#include "runtime/exec/ops/attention_geometry.h"
#include "runtime/exec/stage.h"

namespace moonlit {
namespace {

class AttentionTapStage : public ExecStage {
 public:
  AttentionTapStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        tap_(*b.options->attention_tap),
        spec_(stage.attention),
        geometry_(*b.attention_places[stage.attention_index].geometry),
        index_(stage.attention_index),
        q_(b.values[stage.input]),
        out_(b.values[stage.output]) {
    const Bindings::AttentionPlace& place = b.attention_places[stage.attention_index];
    const float* sinks = spec_.sinks == kNoWeight ? nullptr : b.weights->vector(spec_.sinks);
    tap_.AddLayer({stage.layer, &spec_, sinks, place.layout, place.group, place.layer_in_group, geometry_.sinks()});
  }

  size_t Begin() override { return tap_.Wants(index_) ? b_.step->rows() : 0; }

  void Run(size_t row, size_t) override {
    size_t span = 0;
    while (b_.step->span_row(span) + b_.step->spans()[span].tokens.size() <= row) ++span;
    const int64_t slot = b_.step->slot(row);
    const SlotInterval seen = geometry_.Visible(b_.step->spans()[span], slot);
    tap_.Take({index_, span, row - b_.step->span_row(span), q_.row(row), out_.row(row), slot, seen.first, seen.last});
  }

  std::string Describe() const override { return "attention_tap"; }

 private:
  const Bindings& b_;
  AttentionTap& tap_;
  AttentionSpec spec_;
  const AttentionGeometry& geometry_;
  size_t index_;  // every attention node has its tap
  FloatRows q_, out_;
};

}  // namespace

std::unique_ptr<ExecStage> MakeAttentionTapStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<AttentionTapStage>(bindings, stage);
}

}  // namespace moonlit
