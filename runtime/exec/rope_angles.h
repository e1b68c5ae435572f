// SPDX-License-Identifier: Apache-2.0
// Cosines and sines of a step's rows, computed once a step for each distinct RopeSpec and read by every layer.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/exec/packed_weights.h"
#include "runtime/graph/graph.h"

namespace moonlit {

class RopeAngles {
 public:
  // Frequencies of the spec; divisors are read from the store. The tables hold max_rows rows.
  RopeAngles(const RopeSpec& spec, const WeightStore& weights, size_t max_rows);

  // kCorrupt when a divisor, from the tensor `name`, makes a frequency that is no positive number.
  Status Check(const char* name) const;

  const RopeSpec& spec() const { return spec_; }
  size_t pairs() const { return spec_.dims / 2; }
  void FillRow(size_t row, int64_t position);
  // What turns a vector that is rotated already by so many positions more. cosines, sines: [pairs].
  void FillTurn(int64_t positions, float* cosines, float* sines) const;
  const float* cosines(size_t row) const { return table_.data() + row * 2 * pairs(); }
  const float* sines(size_t row) const { return cosines(row) + pairs(); }

 private:
  RopeSpec spec_;
  std::vector<double> frequencies_;  // [pairs]
  double magnitude_ = 1;
  std::vector<float> table_;  // [max_rows, 2, pairs]
};

}  // namespace moonlit
