// SPDX-License-Identifier: Apache-2.0
// Products with F16 weights.
#include "kernels/matmul/float_kernel-inl.h"

MOONLIT_HALF_PRODUCT(f16, Format::kF16, LoadF16, PairsOfF16)
