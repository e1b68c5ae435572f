// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/step.h"

#include <algorithm>

#include "kernels/base/round.h"
#include "runtime/exec/adapter.h"

namespace moonlit {
namespace {
constexpr int64_t kSlotGroup = 16;
}  // namespace

// Every span has at least one row, so there are at most max_rows spans; a span of n rows touches at most n slot groups.
Step::Step(size_t max_rows, size_t vocab, size_t cache_groups, size_t positions, bool has_state)
    : choices_(max_rows),
      max_rows_(max_rows),
      vocab_(vocab),
      cache_groups_(cache_groups),
      learned_positions_(positions),
      has_state_(has_state),
      span_rows_(max_rows),
      tokens_(max_rows),
      positions_(max_rows),
      slots_(max_rows),
      inputs_(max_rows),
      adapters_(max_rows),
      groups_(max_rows),
      wanted_(max_rows) {}

Status Step::CheckSpan(const StepSpan& span, size_t index) const {
  if (span.tokens.empty()) return Errorf(Code::kInvalidArgument, "span %zu of the step has no tokens", index);
  if (span.tokens.size() > max_rows_ - rows_) {
    return Errorf(Code::kInvalidArgument, "the step has more than %zu tokens, which the plan was made for", max_rows_);
  }
  if (span.first_slot < 0 || span.first_slot > INT32_MAX - static_cast<int64_t>(span.tokens.size())) {
    return Errorf(Code::kInvalidArgument, "span %zu starts at slot %lld: expected 0 to 2^31 - 1", index,
                  static_cast<long long>(span.first_slot));
  }
  if (span.pages.size() != cache_groups_) {
    return Errorf(Code::kInvalidArgument, "span %zu has page tables for %zu cache groups: expected %zu", index,
                  span.pages.size(), cache_groups_);
  }
  if (!span.positions.empty() && span.positions.size() != span.tokens.size()) {
    return Errorf(Code::kInvalidArgument, "span %zu has %zu positions for %zu tokens", index, span.positions.size(),
                  span.tokens.size());
  }
  if (span.prefix > span.tokens.size()) {
    return Errorf(
        Code::kInvalidArgument,
        "the first %zu tokens of span %zu shall see each other: expected at most its %zu; feed such tokens in "
        "one step",
        span.prefix, index, span.tokens.size());
  }
  if (span.tokens.size() > most_span_tokens_) {
    return Errorf(Code::kInvalidArgument, "span %zu has %zu tokens: expected at most %zu, for which there are scores",
                  index, span.tokens.size(), most_span_tokens_);
  }
  MOONLIT_RETURN_IF_ERROR(CheckChoices(span, index));
  MOONLIT_RETURN_IF_ERROR(CheckPast(span, index));
  return CheckTokens(span, index);
}

Status Step::CheckPast(const StepSpan& span, size_t index) const {
  if (whole_sequences_ && span.first_slot != 0) {
    return Errorf(Code::kInvalidArgument,
                  "span %zu starts at slot %lld, but the model's tokens see each other in one step alone: expected "
                  "slot 0 and the whole text",
                  index, static_cast<long long>(span.first_slot));
  }
  for (size_t i = 0; i < span.runs.size(); ++i) {
    const bool follows = i == 0 ? span.runs[i].begin == 0 : span.runs[i].begin > span.runs[i - 1].begin;
    if (follows && span.runs[i].begin <= span.first_slot && span.runs[i].begin % kAttentionTile == 0) continue;
    return Errorf(Code::kInvalidArgument,
                  "run %zu of span %zu begins at slot %lld: expected ascending multiples of %zu from 0 on, up to the "
                  "first new slot",
                  i, index, static_cast<long long>(span.runs[i].begin), kAttentionTile);
  }
  const bool starts = span.first_slot == 0;
  if (has_state_ &&
      (span.next_state == nullptr || span.next_state == span.state || (span.state == nullptr) != starts)) {
    return Errorf(Code::kInvalidArgument,
                  "span %zu begins at slot %lld %s a recurrent state, and %s: expected one from slot 1 on, and another "
                  "one to write",
                  index, static_cast<long long>(span.first_slot), span.state == nullptr ? "without" : "with",
                  span.next_state == nullptr ? "there is none to write" : "there is one to write");
  }
  return Status();
}

Status Step::CheckTokens(const StepSpan& span, size_t index) const {
  if (span.inputs != nullptr && input_width_ == 0) {
    return Errorf(Code::kUnsupported,
                  "span %zu has rows in place of ids, but the model looks ids up in several tables: it takes ids alone",
                  index);
  }
  for (size_t i = 0; i < span.tokens.size(); ++i) {
    if (span.tokens[i] == kInputRow && span.inputs != nullptr) continue;
    if (span.tokens[i] >= 0 && static_cast<size_t>(span.tokens[i]) < vocab_) continue;
    return Errorf(Code::kInvalidArgument, "token %zu of span %zu is %d: expected an id from 0 to %zu", i, index,
                  span.tokens[i], vocab_ - 1);
  }
  return Status();
}

Status Step::CheckChoices(const StepSpan& span, size_t index) const {
  if (sparse_.pages == 0 || !span.choose_pages) return Status();
  if (span.tokens.size() > sparse_.most_tokens - choosing_) {
    return Errorf(Code::kInvalidArgument, "more than %zu tokens of the step choose their pages", sparse_.most_tokens);
  }
  const size_t slots = static_cast<size_t>(span.first_slot) + span.tokens.size();
  if (CeilDiv(slots, page_tokens_) <= sparse_.most_pages) return Status();
  return Errorf(Code::kInvalidArgument, "span %zu chooses among pages up to slot %zu: expected at most %zu of %zu",
                index, slots, sparse_.most_pages, page_tokens_);
}

void Step::AddSpan(const StepSpan& span, size_t index) {
  span_rows_[index] = rows_;
  looked_on_ |= span.tap != nullptr;
  const bool chooses = sparse_.pages != 0 && span.choose_pages;
  choices_[index] = chooses ? static_cast<uint32_t>(choosing_) : kNoChoice;
  choosing_ += chooses ? span.tokens.size() : 0;
  const AdapterSet* adapters = span.adapters;
  if (adapters != nullptr && (widest_adapters_ == nullptr || adapters->stride() > widest_adapters_->stride())) {
    widest_adapters_ = adapters;
  }
  const size_t count = span.tokens.size();
  const int64_t shift = span.runs.empty() ? 0 : span.runs.back().shift;
  for (size_t i = 0; i < count; ++i) {
    const size_t row = rows_ + i;
    const int64_t slot = span.first_slot + static_cast<int64_t>(i);
    tokens_[row] = span.tokens[i];
    slots_[row] = slot;
    adapters_[row] = adapters;
    inputs_[row] = span.inputs == nullptr ? nullptr : span.inputs + i * input_width_;
    positions_[row] = span.positions.empty() ? slot + shift : span.positions[i];
    if (i == 0 || slot % kSlotGroup == 0) {
      groups_[group_count_++] = {static_cast<uint32_t>(index), static_cast<uint32_t>(row), 0, slot};
    }
    ++groups_[group_count_ - 1].count;
    const bool wanted = span.outputs == Outputs::kAll || (span.outputs == Outputs::kLast && i + 1 == count);
    if (wanted)
      wanted_[wanted_count_++] = {static_cast<uint32_t>(row), static_cast<uint32_t>(index), static_cast<uint32_t>(i)};
  }
  rows_ += count;
}

Status Step::CheckPositions() const {
  if (learned_positions_ == kAnyPosition) return Status();
  for (size_t row = 0; row < rows_; ++row) {
    if (positions_[row] >= 0 && static_cast<size_t>(positions_[row]) < learned_positions_) continue;
    return Errorf(Code::kInvalidArgument,
                  "a token is at position %lld: the model has learned 0 to %zu, use fewer tokens",
                  static_cast<long long>(positions_[row]), learned_positions_ - 1);
  }
  return Status();
}

Status Step::Begin(std::span<const StepSpan> spans) {
  spans_ = spans;
  choosing_ = 0;
  looked_on_ = false;
  widest_adapters_ = nullptr;
  rows_ = group_count_ = wanted_count_ = head_first = head_rows = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    MOONLIT_RETURN_IF_ERROR(CheckSpan(spans[i], i));
    AddSpan(spans[i], i);
  }
  return CheckPositions();
}

}  // namespace moonlit
