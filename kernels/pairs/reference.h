// SPDX-License-Identifier: Apache-2.0
// The formulas of pairs.h in double precision, one output each.
#pragma once

#include <stddef.h>

namespace moonlit {

double ReferenceDot(const float* x, const float* row, size_t dim);
double ReferenceWeightedSum(const float* weights, const float* column, size_t stride, size_t n);

}  // namespace moonlit
