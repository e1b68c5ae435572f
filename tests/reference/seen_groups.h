// SPDX-License-Identifier: Apache-2.0
// Which floats the fast path has rounded to A8. It sums in another order than the judge, so next to a border between two int8 values
// each may be right and round another way; from there on nothing agrees. So the judge only checks that the fast path had the
// same values as itself up to float rounding, and rounds those, by the one definition (kernels/matmul/a8.h) and to the same bits.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "kernels/matmul/a8.h"

namespace moonlit::reference {

class SeenGroups {
 public:
  using Group = std::array<float, kA8Group>;  // of a row; behind its end zeros

  // x: [k], from a multiple of the group's size on in its row. All calls come before the first one of Find.
  void Add(const float* x, size_t k);

  // The group that is nearest to x [n], n <= kA8Group, by the largest difference of a value; null: none within `margin`.
  const Group* Find(const double* x, size_t n, double margin);

 private:
  std::vector<Group> groups_;
  bool sorted_ = false;  // by the first value
};

}  // namespace moonlit::reference
