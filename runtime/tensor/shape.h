// SPDX-License-Identifier: Apache-2.0
// Shapes are row-major, outermost first, everywhere in Moonlit. GGUF stores dimensions reversed (innermost first): the
// reader converts, nobody else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "kernels/base/check.h"

namespace moonlit {

// Up to four dimensions, all at least 1. A shape of rank 0 is a scalar.
class Shape {
 public:
  static constexpr size_t kMaxRank = 4;
  Shape() = default;
  Shape(std::initializer_list<size_t> dims) {
    MOONLIT_CHECK(dims.size() <= kMaxRank);
    for (size_t d : dims) dims_[rank_++] = d;
  }
  size_t rank() const { return rank_; }
  size_t operator[](size_t i) const { return dims_[i]; }
  void Append(size_t dim) {
    MOONLIT_CHECK(rank_ < kMaxRank);
    dims_[rank_++] = dim;
  }
  // Product of the dimensions; readers have checked that it does not overflow.
  size_t elements() const {
    size_t n = 1;
    for (size_t i = 0; i < rank_; ++i) n *= dims_[i];
    return n;
  }
  // Last dimension (1 for a scalar), and the product of the others.
  size_t columns() const { return rank_ == 0 ? 1 : dims_[rank_ - 1]; }
  size_t rows() const { return elements() / columns(); }
  bool operator==(const Shape&) const = default;
  // Equal but for outermost dimensions of 1, which writers of GGUF keep or drop as they like.
  bool Matches(const Shape& other) const;
  std::string ToString() const;  // "[2048, 5632]"

 private:
  std::array<size_t, kMaxRank> dims_{};
  size_t rank_ = 0;
};

}  // namespace moonlit
