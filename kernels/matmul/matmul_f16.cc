// SPDX-License-Identifier: Apache-2.0
// Products with F16 weights: float activations, weights converted in registers.
#include "kernels/matmul/float_kernel-inl.h"

MOONLIT_FLOAT_PRODUCT(f16, Format::kF16, LoadF16)
