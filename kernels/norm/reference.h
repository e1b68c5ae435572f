// SPDX-License-Identifier: Apache-2.0
// The formulas of norm.h in double precision, as they are written: what the kernels are tested against.
#pragma once

#include <stddef.h>

namespace moonlit {

// x, out: [d]; weight, bias: [d] or null.
void ReferenceRmsNorm(const float* x, size_t d, const float* weight, double eps, double* out);
void ReferenceLayerNorm(const float* x, size_t d, const float* weight, const float* bias, double eps, double* out);

}  // namespace moonlit
