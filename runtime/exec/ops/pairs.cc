// SPDX-License-Identifier: Apache-2.0
// Attention in its plain form: PairScores, Softmax, WeightedSum, a row a task. Spans start at slot 0 and have at most as many
// tokens as there are columns of scores (Step::WantWholeSequences), so the keys of a row are the rows of its span.
#include "kernels/pairs/pairs.h"

#include <algorithm>
#include <limits>

#include "runtime/exec/ops/soften.h"
#include "runtime/exec/stage.h"

namespace moonlit {
namespace {

class PairsStage : public ExecStage {
 public:
  PairsStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        kind_(stage.kind),
        tail_(stage.tail),
        spec_(stage.pairs),
        softmax_(GetSoftmaxTable(b.options->variant)),
        width_(b.graph->values()[stage.output].width),
        // Of a query and of a value; of a part.
        dim_(b.graph->values()[kind_ == StageKind::kPairScores ? stage.input : stage.output].width / spec_.heads),
        in_(b.values[stage.input]),
        others_(stage.input_b == kNoValue ? FloatRows{} : b.values[stage.input_b]),
        out_(b.values[stage.output]),
        weight_(stage.parts.empty() ? nullptr : b.weights->vector(stage.parts[0].weight)) {}

  size_t Begin() override {
    rows_ = b_.step->range(tail_);
    return rows_.count();
  }

  void Run(size_t task, size_t thread) override {
    const size_t row = rows_.first + task;
    if (kind_ == StageKind::kSoftmax) {
      for (size_t part = 0; part < spec_.heads; ++part) {
        Soften(softmax_, *b_.activations, in_.row(row) + part * dim_, dim_,
               weight_ == nullptr ? nullptr : weight_ + part, out_.row(row) + part * dim_);
      }
      return;
    }
    const RowRange keys = SpanOf(row);
    for (size_t h = 0; h < spec_.heads; ++h) {
      const float* others = others_.row(keys.first) + h / (spec_.heads / spec_.kv_heads) * dim_;
      if (kind_ == StageKind::kPairScores) {
        Score(in_.row(row) + h * dim_, others, keys.count(), b_.scratch.floats(thread), out_.row(row) + h * spec_.keys);
      } else {
        b_.pairs->weighted_sum(in_.row(row) + h * spec_.keys, others, others_.stride, keys.count(), dim_,
                               out_.row(row) + h * dim_);
      }
    }
  }

  std::string Describe() const override { return StageKindName(kind_); }

 private:
  RowRange SpanOf(size_t row) const {
    size_t span = 0, end;
    while ((end = b_.step->span_row(span) + b_.step->spans()[span].tokens.size()) <= row) ++span;
    return {b_.step->span_row(span), end};
  }

  void Score(const float* q, const float* keys, size_t count, float* scratch, float* out) const {
    if (weight_ == nullptr) {
      b_.pairs->dots(q, keys, others_.stride, count, dim_, out);
    } else {
      for (size_t j = 0; j < count; ++j) {
        b_.activations->add(q, keys + j * others_.stride, scratch, dim_);
        b_.activations->softcap(scratch, 1, scratch, dim_);  // tanh
        b_.pairs->dots(weight_, scratch, dim_, 1, dim_, out + j);
      }
    }
    if (spec_.softcap != 0) b_.activations->softcap(out, spec_.softcap, out, count);
    std::fill(out + count, out + spec_.keys, -std::numeric_limits<float>::infinity());
  }

  const Bindings& b_;
  StageKind kind_;
  bool tail_;
  PairSpec spec_;
  const SoftmaxTable& softmax_;
  size_t width_, dim_;
  FloatRows in_, others_, out_;
  const float* weight_;  // of additive scores, [dim]; of softmax, the sinks [parts]; or null
  RowRange rows_{};
};

}  // namespace

std::unique_ptr<ExecStage> MakePairsStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<PairsStage>(bindings, stage);
}

}  // namespace moonlit
