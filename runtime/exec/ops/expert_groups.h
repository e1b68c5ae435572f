// SPDX-License-Identifier: Apache-2.0
// The rows of a step by the experts that they chose: what the stages of experts hand to each other.
//
// A row that goes to an expert takes a slot. Slots are ordered by expert, then by row (a counting sort), so the slots of an expert
// lie together, and every row meets its experts in ascending order. Activations of a slot lie in float form at row `slot` of
// a buffer, and in A8 form in a region of the expert, laid out for the number of its rows (kernels/matmul/a8.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matmul/a8.h"
#include "runtime/graph/graph.h"

namespace moonlit {

// Neighbouring slots of one expert: what one pass of its products works on.
struct ExpertBlock {
  uint32_t expert;
  uint32_t first_slot;
  uint32_t count;   // at most the block rows
  uint32_t before;  // slots of this expert before it
};

// All memory is given by the plan's arena; a step allocates nothing. Choices of different rows may be written by any threads;
// Sort and what it makes belong to one thread, until a barrier shows them to the others.
class ExpertGroups {
 public:
  ExpertGroups(const RouteSpec& spec, size_t max_rows) : spec_(spec), max_rows_(max_rows) {}

  const RouteSpec& spec() const { return spec_; }
  size_t max_slots() const { return max_rows_ * spec_.used; }
  // A8 rows that hold max_slots() rows, whatever the experts' shares.
  size_t most_a8_rows() const;
  uint64_t Bytes() const;       // of Place's memory
  void Place(uint8_t* memory);  // 64-byte aligned

  // Rows [first_row, first_row + rows) of the step.
  void Begin(size_t first_row, size_t rows) {
    first_row_ = first_row;
    rows_ = rows;
  }
  size_t rows() const { return rows_; }
  size_t first_row() const { return first_row_; }
  size_t slots() const { return rows_ * spec_.used; }
  // Experts that get a row: at most.
  size_t most_active() const { return slots() < spec_.experts ? slots() : spec_.experts; }
  // Blocks that Sort makes with this many rows a block: at most. REQUIRES: slots() > 0.
  size_t MostBlocks(size_t block_rows) const { return most_active() + (slots() - most_active()) / block_rows; }
  void set_block_rows(size_t rows) { block_rows_ = rows; }  // before Sort
  size_t block_rows() const { return block_rows_; }

  // [used] chosen experts, best first, and their weights, of a row of the step.
  uint32_t* chosen(size_t row) const { return chosen_ + (row - first_row_) * spec_.used; }
  float* weights(size_t row) const { return weights_ + (row - first_row_) * spec_.used; }

  void Sort();

  size_t blocks() const { return blocks_count_; }
  const ExpertBlock& block(size_t i) const { return blocks_[i]; }
  size_t slot_row(size_t slot) const { return slot_rows_[slot]; }  // of the step
  size_t slot_expert(size_t slot) const { return slot_experts_[slot]; }
  size_t first_slot(size_t expert) const { return first_slots_[expert]; }
  float slot_weight(size_t slot) const { return slot_weights_[slot]; }
  size_t expert_rows(size_t expert) const { return first_slots_[expert + 1] - first_slots_[expert]; }
  // The region of the expert in memory of A8Bytes(1, k) * most_a8_rows() bytes.
  A8View A8Rows(uint8_t* memory, size_t expert, size_t k) const {
    return MakeA8View(memory + first_a8_rows_[expert] * A8Bytes(1, k), expert_rows(expert), k);
  }

 private:
  void CountAndPlace();
  void CutIntoBlocks();

  RouteSpec spec_;
  size_t max_rows_;
  size_t first_row_ = 0, rows_ = 0, block_rows_ = 16, blocks_count_ = 0;
  uint32_t* chosen_ = nullptr;         // [max_rows, used]
  float* weights_ = nullptr;           // [max_rows, used]
  uint32_t* slot_rows_ = nullptr;      // [max_slots]
  uint32_t* slot_experts_ = nullptr;   // [max_slots]
  float* slot_weights_ = nullptr;      // [max_slots]
  ExpertBlock* blocks_ = nullptr;      // [max_slots]
  uint32_t* first_slots_ = nullptr;    // [experts + 1]
  uint32_t* next_slots_ = nullptr;     // [experts]
  uint32_t* first_a8_rows_ = nullptr;  // [experts]
};

}  // namespace moonlit
