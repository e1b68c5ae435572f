// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/seen_groups.h"

#include <algorithm>
#include <cmath>

namespace moonlit::reference {

void SeenGroups::Add(const float* x, size_t k) {
  for (size_t i = 0; i < k; i += kA8Group) {
    Group group{};
    std::copy_n(x + i, std::min(kA8Group, k - i), group.begin());
    groups_.push_back(group);
  }
}

const SeenGroups::Group* SeenGroups::Find(const double* x, size_t n, double margin) {
  if (!sorted_) std::sort(groups_.begin(), groups_.end());
  sorted_ = true;
  const auto below = [](const Group& group, double value) { return double{group[0]} < value; };
  const Group* nearest = nullptr;
  for (auto it = std::lower_bound(groups_.begin(), groups_.end(), x[0] - margin, below);
       it != groups_.end() && double{(*it)[0]} <= x[0] + margin; ++it) {
    double difference = 0;
    for (size_t i = 0; i < kA8Group && difference <= margin; ++i) {
      difference = std::max(difference, std::fabs(double{(*it)[i]} - (i < n ? x[i] : 0.0)));
    }
    if (difference > margin) continue;
    margin = difference;
    nearest = &*it;
  }
  return nearest;
}

}  // namespace moonlit::reference
