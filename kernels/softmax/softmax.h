// SPDX-License-Identifier: Apache-2.0
// Softmax of one row:  out[i] = exp(scale * x[i] - m) / sum_j exp(scale * x[j] - m),  m = max_j scale * x[j].
// For expert routers and lessons; attention has its own, streaming one (kernels/attention).
//
//   GetSoftmaxTable(variant).softmax_row(logits, n, 1.0f, probabilities);
//
// A row of nothing but -inf gives zeros; a NaN anywhere, or +inf, gives a row of NaN. The sum runs in an order that
// depends on n and the variant only. `out` may be equal to `x`. No alignment needed. Pure: no allocation, no threads.
#pragma once

#include <stddef.h>

#include "kernels/cpu/variant.h"

namespace moonlit {

struct SoftmaxTable {
  void (*softmax_row)(const float* x, size_t n, float scale, float* out);  // x, out: [n]; scale above 0
};

// REQUIRES: IsBuilt(variant).
const SoftmaxTable& GetSoftmaxTable(Variant variant);

}  // namespace moonlit
