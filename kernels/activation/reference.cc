// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation/reference.h"

#include <math.h>

namespace moonlit {

double ReferenceSigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
double ReferenceSilu(double x) { return x / (1.0 + exp(-x)); }
double ReferenceGelu(double x) { return 0.5 * x * erfc(-x / sqrt(2.0)); }  // erfc: no cancellation for x < 0
double ReferenceGeluTanh(double x) {
  const double y = sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x);
  return x / (1.0 + exp(-2.0 * y));
}
double ReferenceReluSquared(double x) { return x < 0 ? 0.0 : x * x; }
double ReferenceSoftCap(double x, double cap) { return cap * tanh(x / cap); }

}  // namespace moonlit
