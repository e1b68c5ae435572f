// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/reference.h"

#include <math.h>

namespace moonlit {

void ReferenceRmsNorm(const float* x, size_t d, const float* weight, double eps, double* out) {
  double squares = 0;
  for (size_t i = 0; i < d; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const double root = sqrt(squares / static_cast<double>(d) + eps);
  for (size_t i = 0; i < d; ++i) {
    out[i] = static_cast<double>(x[i]) / root * (weight != nullptr ? static_cast<double>(weight[i]) : 1.0);
  }
}

void ReferenceLayerNorm(const float* x, size_t d, const float* weight, const float* bias, double eps, double* out) {
  double mean = 0;
  for (size_t i = 0; i < d; ++i) mean += static_cast<double>(x[i]);
  mean /= static_cast<double>(d);
  double squares = 0;
  for (size_t i = 0; i < d; ++i) squares += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean);
  const double root = sqrt(squares / static_cast<double>(d) + eps);
  for (size_t i = 0; i < d; ++i) {
    out[i] = (static_cast<double>(x[i]) - mean) / root * (weight != nullptr ? static_cast<double>(weight[i]) : 1.0) +
             (bias != nullptr ? static_cast<double>(bias[i]) : 0.0);
  }
}

}  // namespace moonlit
