// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/ops/expert_groups.h"

#include <algorithm>
#include <type_traits>

#include "kernels/base/round.h"

namespace moonlit {
namespace {

constexpr size_t kRowUnit = 16;  // blocks are multiples: product kernels work on that many rows at once or fewer

// Rows of whole blocks of A8 that hold `rows`.
size_t A8RowsFor(size_t rows) {
  const size_t block_rows = MakeA8View(nullptr, rows, kA8Group).block_rows;
  return RoundUp(rows, block_rows);
}

}  // namespace

// Blocks of 1, 2, 4, 8 or 16 rows: fewer than 16 rows are never doubled, and more get at most 15 beside them.
size_t ExpertGroups::most_a8_rows() const {
  const size_t slots = max_slots();
  return std::min(2 * slots, slots + (kRowUnit - 1) * std::min(slots, spec_.experts));
}

uint64_t ExpertGroups::Bytes() const {
  const uint64_t slots = RoundUp(max_slots(), kRowUnit), experts = RoundUp(spec_.experts + 1, kRowUnit);
  return slots * (3 * sizeof(uint32_t) + 2 * sizeof(float) + sizeof(ExpertBlock)) + experts * 3 * sizeof(uint32_t);
}

void ExpertGroups::Place(uint8_t* memory) {
  const auto take = [&memory](auto*& pointer, size_t count) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(memory);
    memory += RoundUp(count, kRowUnit) * sizeof(*pointer);
  };
  take(chosen_, max_slots());
  take(weights_, max_slots());
  take(slot_rows_, max_slots());
  take(slot_experts_, max_slots());
  take(slot_weights_, max_slots());
  take(blocks_, max_slots());
  take(first_slots_, spec_.experts + 1);
  take(next_slots_, spec_.experts + 1);
  take(first_a8_rows_, spec_.experts + 1);
}

void ExpertGroups::Sort() {
  CountAndPlace();
  CutIntoBlocks();
}

void ExpertGroups::CountAndPlace() {
  std::fill(next_slots_, next_slots_ + spec_.experts, 0u);
  for (size_t i = 0; i < slots(); ++i) ++next_slots_[chosen_[i]];
  uint32_t slot = 0, a8_row = 0;
  for (size_t e = 0; e < spec_.experts; ++e) {
    const uint32_t rows = next_slots_[e];
    first_slots_[e] = next_slots_[e] = slot;
    first_a8_rows_[e] = a8_row;
    slot += rows;
    a8_row += static_cast<uint32_t>(A8RowsFor(rows));
  }
  first_slots_[spec_.experts] = slot;
  for (size_t i = 0; i < slots(); ++i) {
    const uint32_t at = next_slots_[chosen_[i]]++;
    slot_rows_[at] = static_cast<uint32_t>(first_row_ + i / spec_.used);
    slot_experts_[at] = chosen_[i];
    slot_weights_[at] = weights_[i];
  }
}

// An expert's rows in as few blocks as hold them, of about equal size.
void ExpertGroups::CutIntoBlocks() {
  blocks_count_ = 0;
  for (size_t e = 0; e < spec_.experts; ++e) {
    const size_t rows = expert_rows(e);
    if (rows == 0) continue;
    const size_t even = RoundUp(CeilDiv(rows, CeilDiv(rows, block_rows_)), kRowUnit);
    const size_t step = std::min(even, block_rows_);
    for (size_t row = 0; row < rows; row += step) {
      blocks_[blocks_count_++] = {static_cast<uint32_t>(e), static_cast<uint32_t>(first_slots_[e] + row),
                                  static_cast<uint32_t>(std::min(step, rows - row)), static_cast<uint32_t>(row)};
    }
  }
}

}  // namespace moonlit
