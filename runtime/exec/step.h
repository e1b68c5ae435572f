// SPDX-License-Identifier: Apache-2.0
// What one step works on, laid out so that stages find rows, slots and wanted outputs by arithmetic. All tables have their full
// size from the start: a step allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/exec/plan.h"

namespace moonlit {

class AdapterSet;  // adapter.h

// Tokens whose slots lie in one 16-token group of the cache: what one task may write.
struct SlotGroup {
  uint32_t span;
  uint32_t first_row;  // of the step
  uint32_t count;      // 1 .. 16
  int64_t slot;        // of the first
};

// A row that goes through the output head.
struct WantedRow {
  uint32_t row;  // of the step
  uint32_t span;
  uint32_t token;  // of the span
};

// Rows [first, end) of the step.
struct RowRange {
  size_t first, end;
  size_t count() const { return end - first; }
};

inline constexpr size_t kAnyPosition = SIZE_MAX;
inline constexpr size_t kHeadRows = 32;  // rows of one pass through the output head

class Step {
 public:
  // positions: how many the model has learned.
  Step(size_t max_rows, size_t vocab, size_t cache_groups, size_t positions = kAnyPosition, bool has_state = false);

  // Checks the spans and fills the tables. kInvalidArgument names span, what was expected and found.
  Status Begin(std::span<const StepSpan> spans);

  size_t rows() const { return rows_; }
  // What a stage works on: all rows; in the tail (FusedStage::tail) those from the first to the last wanted one, unless somebody looks
  // on.
  RowRange range(bool tail) const {
    if (!tail || looked_on_) return {0, rows_};
    return wanted_count_ == 0 ? RowRange{0, 0} : RowRange{wanted_[0].row, wanted_[wanted_count_ - 1].row + size_t{1}};
  }
  std::span<const StepSpan> spans() const { return spans_; }
  bool looked_on() const { return looked_on_; }                    // some span has a tap
  size_t span_row(size_t span) const { return span_rows_[span]; }  // first row of the span
  int32_t token(size_t row) const { return tokens_[row]; }
  int64_t position(size_t row) const { return positions_[row]; }           // what RoPE turns by
  int64_t slot(size_t row) const { return slots_[row]; }                   // where the text as it stands has the token
  const float* input(size_t row) const { return inputs_[row]; }            // where token(row) is kInputRow
  const AdapterSet* adapters(size_t row) const { return adapters_[row]; }  // null: none
  bool has_adapters() const { return widest_adapters_ != nullptr; }
  // Of the spans' sets the one with the most room for products, which serves all rows.
  const AdapterSet* widest_adapters() const { return widest_adapters_; }
  std::span<const SlotGroup> slot_groups() const { return {groups_.data(), group_count_}; }
  std::span<const WantedRow> wanted() const { return {wanted_.data(), wanted_count_}; }

  // Before the first step: how many tokens of a step may choose their pages, and how many pages a sequence then has.
  void LimitChoices(const SparseAttention& sparse, size_t page_tokens) {
    sparse_ = sparse;
    page_tokens_ = page_tokens;
  }
  // Number of the span's first token that chooses, among those of the step; kNoChoice where none does.
  static constexpr uint32_t kNoChoice = UINT32_MAX;
  uint32_t first_choice(size_t span) const { return choices_[span]; }
  size_t choosing_tokens() const { return choosing_; }

  // Before the first step, if spans must start at slot 0 (Plan::whole_sequences), with at most so many tokens.
  void WantWholeSequences(size_t most_tokens) {
    whole_sequences_ = true;
    most_span_tokens_ = most_tokens;
  }

  // Before the first step: Plan::input_width.
  void TakeInputs(size_t width) { input_width_ = width; }

  // The head's current block of wanted rows.
  size_t head_first = 0;
  size_t head_rows = 0;

 private:
  Status CheckSpan(const StepSpan& span, size_t index) const;
  Status CheckChoices(const StepSpan& span, size_t index) const;
  Status CheckPast(const StepSpan& span, size_t index) const;    // what it goes on from
  Status CheckTokens(const StepSpan& span, size_t index) const;  // and their rows
  void AddSpan(const StepSpan& span, size_t index);
  Status CheckPositions() const;

  bool whole_sequences_ = false;
  size_t most_span_tokens_ = SIZE_MAX;
  SparseAttention sparse_;
  size_t page_tokens_ = 1;
  size_t choosing_ = 0;
  std::vector<uint32_t> choices_;  // [spans]
  size_t max_rows_, vocab_, cache_groups_, learned_positions_;
  bool has_state_, looked_on_ = false;
  std::span<const StepSpan> spans_;
  size_t rows_ = 0, group_count_ = 0, wanted_count_ = 0;
  std::vector<size_t> span_rows_;
  std::vector<int32_t> tokens_;
  std::vector<int64_t> positions_, slots_;
  std::vector<const float*> inputs_;
  size_t input_width_ = 0;
  std::vector<const AdapterSet*> adapters_;
  const AdapterSet* widest_adapters_ = nullptr;
  std::vector<SlotGroup> groups_;
  std::vector<WantedRow> wanted_;
};

}  // namespace moonlit
