// SPDX-License-Identifier: Apache-2.0
// Products with BF16 weights: float activations, weights converted in registers.
#include "kernels/matmul/float_kernel-inl.h"

MOONLIT_FLOAT_PRODUCT(bf16, Format::kBF16, LoadBF16)
