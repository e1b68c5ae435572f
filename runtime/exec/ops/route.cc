// SPDX-License-Identifier: Apache-2.0
// The router's choice: logits of a row -> its experts and their weights (RouteSpec in runtime/graph/graph.h). The task that ends
// last orders all rows by expert, so that costs no barrier of its own.
#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>

#include "kernels/softmax/softmax.h"
#include "runtime/exec/ops/expert_groups.h"
#include "runtime/exec/stage.h"

namespace moonlit {
namespace {

constexpr size_t kRowsPerTask = 16;

// The order of choice: greater first, NaN last. Of equals the one met first stays first.
bool IsBetter(float a, float b) { return a > b || (std::isnan(b) && !std::isnan(a)); }

// The `used` best of [experts] keys, best first, by insertion into the list of the best so far.
void ChooseBest(const float* keys, size_t experts, size_t used, uint32_t* chosen) {
  size_t count = 0;
  for (size_t e = 0; e < experts; ++e) {
    if (count == used && !IsBetter(keys[e], keys[chosen[used - 1]])) continue;
    size_t at = count < used ? count++ : used - 1;
    for (; at > 0 && IsBetter(keys[e], keys[chosen[at - 1]]); --at) chosen[at] = chosen[at - 1];
    chosen[at] = static_cast<uint32_t>(e);
  }
}

class RouteStage : public ExecStage {
 public:
  RouteStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        tail_(stage.tail),
        spec_(stage.experts.route),
        softmax_(GetSoftmaxTable(b.options->variant)),
        logits_(b.values[stage.input]),
        bias_(b.weights->vector(spec_.selection_bias)),
        groups_(*b.experts_places[stage.experts_index].groups) {}

  size_t Begin() override {
    rows_ = b_.step->range(tail_);
    groups_.Begin(rows_.first, rows_.count());
    const size_t tasks = CeilDiv(rows_.count(), kRowsPerTask);
    unfinished_.store(tasks, std::memory_order_relaxed);
    return tasks;
  }

  void Run(size_t task, size_t thread) override {
    const size_t first = rows_.first + task * kRowsPerTask;
    const size_t end = std::min(rows_.end, first + kRowsPerTask);
    for (size_t row = first; row < end; ++row) Choose(row, b_.scratch.floats(thread));
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) groups_.Sort();
  }

  std::string Describe() const override {
    return "route " + std::to_string(spec_.used) + " of " + std::to_string(spec_.experts) + " experts";
  }

 private:
  // `scratch`: twice the number of experts.
  void Choose(size_t row, float* scratch) const {
    const float* logits = logits_.row(row);
    float* weights = groups_.weights(row);
    uint32_t* chosen = groups_.chosen(row);
    const float* scores = Scores(logits, scratch);
    const float* keys = logits;
    if (bias_ != nullptr) {
      b_.activations->add(scores, bias_, scratch + spec_.experts, spec_.experts);
      keys = scratch + spec_.experts;
    }
    ChooseBest(keys, spec_.experts, spec_.used, chosen);
    for (size_t i = 0; i < spec_.used; ++i) weights[i] = scores[chosen[i]];
    if (spec_.scores == RouterScores::kSoftmaxOfChosen) softmax_.softmax_row(weights, spec_.used, 1.0f, weights);
    Finish(weights);
  }

  const float* Scores(const float* logits, float* scratch) const {
    if (spec_.scores == RouterScores::kSoftmaxOfChosen) return logits;
    if (spec_.scores == RouterScores::kSoftmax) {
      softmax_.softmax_row(logits, spec_.experts, 1.0f, scratch);
    } else {
      b_.activations->sigmoid(logits, scratch, spec_.experts);
    }
    return scratch;
  }

  void Finish(float* weights) const {
    float sum = 0;
    for (size_t i = 0; i < spec_.used; ++i) sum += weights[i];
    const float divisor = spec_.normalise ? (sum < FLT_MIN ? FLT_MIN : sum) : 1.0f;
    for (size_t i = 0; i < spec_.used; ++i) weights[i] = weights[i] / divisor * spec_.scale;
  }

  const Bindings& b_;
  bool tail_;
  RouteSpec spec_;
  const SoftmaxTable& softmax_;
  FloatRows logits_;
  const float* bias_;
  ExpertGroups& groups_;
  RowRange rows_{};
  std::atomic<size_t> unfinished_{0};
};

}  // namespace

std::unique_ptr<ExecStage> MakeRouteStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<RouteStage>(bindings, stage);
}

}  // namespace moonlit
