// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/shape.h"

namespace moonlit {

std::string Shape::ToString() const {
  std::string text = "[";
  for (size_t i = 0; i < rank_; ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(dims_[i]);
  }
  return text + "]";
}

}  // namespace moonlit
