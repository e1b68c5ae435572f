// SPDX-License-Identifier: Apache-2.0
// log sum_i exp(x[i]), the number that turns logits into log-probabilities: log p(i) = x[i] - LogSumExp(x).
#pragma once

#include <cstddef>
#include <span>

namespace moonlit {

// In double precision, in ascending order, shifted by the largest. -inf for an empty row or nothing but -inf; NaN if
// there is a NaN; +inf if there is one (and no NaN). Thread safe.
double LogSumExp(std::span<const float> logits);

}  // namespace moonlit
