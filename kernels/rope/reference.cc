// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope/reference.h"

#include <math.h>

namespace moonlit {

void ReferenceRope(RopeKind kind, const float* x, size_t head_dim, size_t rotated, double base, int64_t position,
                   double* out) {
  for (size_t i = 0; i < head_dim; ++i) out[i] = static_cast<double>(x[i]);
  for (size_t i = 0; i < rotated / 2; ++i) {
    const double angle =
        static_cast<double>(position) / pow(base, 2.0 * static_cast<double>(i) / static_cast<double>(rotated));
    const size_t first = kind == RopeKind::kPairs ? 2 * i : i;
    const size_t second = kind == RopeKind::kPairs ? 2 * i + 1 : i + rotated / 2;
    const double a = static_cast<double>(x[first]), b = static_cast<double>(x[second]);
    out[first] = a * cos(angle) - b * sin(angle);
    out[second] = a * sin(angle) + b * cos(angle);
  }
}

}  // namespace moonlit
