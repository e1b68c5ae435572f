// SPDX-License-Identifier: Apache-2.0
// Softmax of a row of scores, with a learned sink if there is one (gpt-oss). sink: its logit, or null. out may be x.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/activation/activation.h"
#include "kernels/softmax/softmax.h"

namespace moonlit {

// A sink takes exp(sink - m) of what is exp(score - m) for the others, m the largest score: all weights shrink by its share. The largest
// weight is exp(0) over the sum without it.
inline void Soften(const SoftmaxTable& softmax, const ActivationTable& activations, const float* x, size_t n,
                   const float* sink, float* out) {
  if (n == 0) return;
  const size_t largest = sink == nullptr ? 0 : static_cast<size_t>(std::max_element(x, x + n) - x);
  const double score = static_cast<double>(x[largest]);
  softmax.softmax_row(x, n, 1, out);
  if (sink == nullptr || out[largest] == 0) return;
  const double share = std::exp(static_cast<double>(*sink) - score);
  activations.scale(out, static_cast<float>(1 / (1 + share * static_cast<double>(out[largest]))), out, n);
}

}  // namespace moonlit
