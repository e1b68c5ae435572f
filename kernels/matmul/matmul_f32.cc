// SPDX-License-Identifier: Apache-2.0
// Products with F32 weights: float activations, weights converted in registers.
#include "kernels/matmul/float_kernel-inl.h"

MOONLIT_FLOAT_PRODUCT(f32, Format::kF32, LoadF32)
