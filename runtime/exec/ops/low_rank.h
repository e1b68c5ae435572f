// SPDX-License-Identifier: Apache-2.0
// The addends of adapters (runtime/exec/adapter.h) to the products of one stage. A stage before it makes t = A x of every row with an
// adapter; the product's own tasks add B t to what they have stored. Steps without adapters have neither.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/exec/bindings.h"

namespace moonlit {

class AdapterSet;

class LowRankAddends {
 public:
  // Of the weights of `stage`'s parts. In the head (StageKind::kHead) rows are those of its current block.
  LowRankAddends(const Bindings& b, const FusedStage& stage);

  // Whether some row of the step has adapters.
  bool any() const { return b_.step->has_adapters(); }
  // out[0 .. end - first) += outputs [first, end) of the row's addend to product `part`.
  void Add(size_t part, size_t row, size_t first, size_t end, float* out) const;

  // What the stage before it needs.
  size_t parts() const { return weights_.size(); }
  WeightId weight(size_t part) const { return weights_[part]; }
  const AdapterSet* SetOf(size_t row) const;  // null: the row has none
  // t of the row and part: as many floats as the set's rank of the weight.
  float* Products(const AdapterSet& set, size_t part, size_t row) const;

 private:
  const Bindings& b_;
  bool head_;
  std::vector<WeightId> weights_;
};

}  // namespace moonlit
