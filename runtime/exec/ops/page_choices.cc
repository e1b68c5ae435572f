// SPDX-License-Identifier: Apache-2.0
// Two stages beside attention's own: the one bounds the keys of pages that the step has filled, the other chooses pages by these
// bounds (kernels/attention/selection.h).
#include "runtime/exec/ops/page_choices.h"

#include <algorithm>

#include "kernels/attention/selection.h"
#include "runtime/exec/ops/attention_geometry.h"
#include "runtime/exec/ops/query_turn.h"
#include "runtime/exec/stage.h"

namespace moonlit {
namespace {

// Quest leaves the first two layers dense: their attention is spread (section 4.1 of the paper).
constexpr size_t kDenseLayers = 2;

// One task a page that is full now and a KV head.
class BoundKeysStage : public ExecStage {
 public:
  BoundKeysStage(const Bindings& b, const FusedStage& stage)
      : b_(b), kv_heads_(stage.attention.kv_heads), place_(b.attention_places[stage.attention_index]) {
    full_.reserve(2 * b.options->max_rows);
  }

  size_t Begin() override {
    full_.clear();
    const size_t tokens = place_.layout->page_tokens;
    for (const StepSpan& span : b_.step->spans()) {
      const size_t first = static_cast<size_t>(span.first_slot), end = first + span.tokens.size();
      for (size_t p = first / tokens; p < end / tokens; ++p) full_.push_back(span.pages[place_.group][p]);
    }
    return full_.size() * kv_heads_;
  }

  void Run(size_t task, size_t) override {
    uint8_t* page = full_[task / kv_heads_];
    SummarizeKeys(*place_.layout, page, PagePartOffset(*place_.layout, place_.layer_in_group, task % kv_heads_));
  }

  std::string Describe() const override { return "bound_keys"; }

 private:
  const Bindings& b_;
  size_t kv_heads_;
  Bindings::AttentionPlace place_;
  std::vector<uint8_t*> full_;
};

// One task a choosing token and a KV head.
class ChoosePagesStage : public ExecStage {
 public:
  ChoosePagesStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        spec_(stage.attention),
        place_(b.attention_places[stage.attention_index]),
        q_(b.values[stage.input]),
        group_(spec_.heads / spec_.kv_heads) {}

  size_t Begin() override { return b_.step->choosing_tokens() * spec_.kv_heads; }

  void Run(size_t task, size_t thread) override {
    const auto choice = static_cast<uint32_t>(task / spec_.kv_heads);
    const size_t head = task % spec_.kv_heads, s = SpanOf(choice);
    const StepSpan& span = b_.step->spans()[s];
    const size_t token = choice - b_.step->first_choice(s);
    const uint8_t* const* pages = span.pages[place_.group];
    const size_t count = (static_cast<size_t>(span.first_slot) + token) / place_.layout->page_tokens + 1;
    PageChoices& choices = *place_.choices;
    const uint8_t** table = choices.table(choice, head);
    float* bounds = choices.bounds(thread);
    if (count > choices.pages()) {
      const float* q = q_.row(b_.step->span_row(s) + token) + head * group_ * spec_.key_dim;
      BoundMiddle(span, head, q, count, thread, bounds);
    }
    SelectPages({.pages = choices.pages(), .first = 1, .latest = 1}, bounds, pages, count, choices.order(thread),
                table);
  }

  std::string Describe() const override { return "choose_pages " + std::to_string(place_.choices->pages()); }

 private:
  size_t SpanOf(uint32_t choice) const {
    size_t s = 0;
    for (;; ++s) {
      const uint32_t first = b_.step->first_choice(s);
      if (first != Step::kNoChoice && choice < first + b_.step->spans()[s].tokens.size()) return s;
    }
  }

  // Of all pages but the first and the last one, run by run.
  void BoundMiddle(const StepSpan& span, size_t head, const float* q, size_t count, size_t thread,
                   float* bounds) const {
    const auto tokens = static_cast<int64_t>(place_.layout->page_tokens);
    const SlotRun whole[] = {{0, 0}};
    const std::span<const SlotRun> runs = span.runs.empty() ? std::span<const SlotRun>(whole) : span.runs;
    for (size_t i = 0; i < runs.size(); ++i) {
      const size_t end = i + 1 < runs.size() ? static_cast<size_t>(runs[i + 1].begin / tokens) : count;
      const size_t first = std::max<size_t>(1, static_cast<size_t>(runs[i].begin / tokens));
      const size_t last = std::min(end, count - 1);
      if (first >= last) continue;
      const QueryTurn turn(b_, spec_, place_, runs[i].shift - runs.back().shift, thread);
      const float* queries[kAttentionMaxRows];
      for (size_t g = 0; g < group_; ++g) queries[g] = turn.Of(q + g * spec_.key_dim, g);
      BoundPages({.layout = place_.layout,
                  .pages = span.pages[place_.group] + first,
                  .page_count = last - first,
                  .part_offset = PagePartOffset(*place_.layout, place_.layer_in_group, head),
                  .rows = group_,
                  .q = queries},
                 bounds + first);
    }
  }

  const Bindings& b_;
  AttentionSpec spec_;
  Bindings::AttentionPlace place_;
  FloatRows q_;
  size_t group_;
};

}  // namespace

bool PageChoices::Serves(const AttentionSpec& spec, size_t index) {
  return index >= kDenseLayers && SeesWholeText(spec) && spec.alibi_max_bias == 0 && spec.scale > 0 &&
         spec.heads / spec.kv_heads <= kAttentionMaxRows;
}

std::unique_ptr<ExecStage> MakeBoundKeysStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<BoundKeysStage>(bindings, stage);
}
std::unique_ptr<ExecStage> MakeChoosePagesStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<ChoosePagesStage>(bindings, stage);
}

}  // namespace moonlit
