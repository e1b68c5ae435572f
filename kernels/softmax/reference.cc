// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax/reference.h"

#include <math.h>

namespace moonlit {

void ReferenceSoftmax(const float* x, size_t n, double scale, double* out) {
  double largest = -INFINITY, sum = 0;
  for (size_t i = 0; i < n; ++i) largest = fmax(largest, scale * static_cast<double>(x[i]));
  for (size_t i = 0; i < n; ++i) {
    out[i] = largest == -INFINITY ? 0.0 : exp(scale * static_cast<double>(x[i]) - largest);
    sum += out[i];
  }
  for (size_t i = 0; i < n; ++i) out[i] = sum == 0 ? 0.0 : out[i] / sum;
}

}  // namespace moonlit
