// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/logsumexp.h"

#include <cmath>
#include <limits>

namespace moonlit {

double LogSumExp(std::span<const float> logits) {
  float largest = -std::numeric_limits<float>::infinity();
  for (float x : logits) {
    if (std::isnan(x)) return std::numeric_limits<double>::quiet_NaN();
    if (x > largest) largest = x;
  }
  if (std::isinf(largest)) return double{largest};
  double sum = 0;
  for (float x : logits) sum += std::exp(double{x} - double{largest});
  return double{largest} + std::log(sum);
}

}  // namespace moonlit
