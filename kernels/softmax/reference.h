// SPDX-License-Identifier: Apache-2.0
// The formula of softmax.h in double precision, for rows of finite values and -inf.
#pragma once

#include <stddef.h>

namespace moonlit {

void ReferenceSoftmax(const float* x, size_t n, double scale, double* out);  // x, out: [n]

}  // namespace moonlit
