// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/shape.h"

namespace moonlit {

bool Shape::Matches(const Shape& other) const {
  const auto inner = [](const Shape& s, size_t i) { return i < s.rank_ ? s.dims_[s.rank_ - 1 - i] : 1; };
  for (size_t i = 0; i < kMaxRank; ++i) {
    if (inner(*this, i) != inner(other, i)) return false;
  }
  return true;
}

std::string Shape::ToString() const {
  std::string text = "[";
  for (size_t i = 0; i < rank_; ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(dims_[i]);
  }
  return text + "]";
}

}  // namespace moonlit
