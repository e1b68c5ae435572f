// SPDX-License-Identifier: Apache-2.0
// Plain rotary embedding in double precision, straight from the paper: what tables and kernels are tested against.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/rope/rope.h"

namespace moonlit {

// x, out: [head_dim]; no scaling of any kind.
void ReferenceRope(RopeKind kind, const float* x, size_t head_dim, size_t rotated, double base, int64_t position,
                   double* out);

}  // namespace moonlit
