// SPDX-License-Identifier: Apache-2.0
#include "kernels/pairs/reference.h"

namespace moonlit {

double ReferenceDot(const float* x, const float* row, size_t dim) {
  double sum = 0;
  for (size_t c = 0; c < dim; ++c) sum += static_cast<double>(x[c]) * static_cast<double>(row[c]);
  return sum;
}

double ReferenceWeightedSum(const float* weights, const float* column, size_t stride, size_t n) {
  double sum = 0;
  for (size_t j = 0; j < n; ++j) sum += static_cast<double>(weights[j]) * static_cast<double>(column[j * stride]);
  return sum;
}

}  // namespace moonlit
