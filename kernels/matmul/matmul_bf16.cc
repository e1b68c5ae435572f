// SPDX-License-Identifier: Apache-2.0
// Products with BF16 weights.
#include "kernels/matmul/float_kernel-inl.h"

MOONLIT_HALF_PRODUCT(bf16, Format::kBF16, LoadBF16, PairsOfBF16)
