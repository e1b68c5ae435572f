// SPDX-License-Identifier: Apache-2.0
// What the objects of one variant give to the table (matmul.cc): one kernel a format, and the quantizer of activations.
#pragma once

#include "kernels/matmul/matmul.h"
#include "kernels/simd/dot-inl.h"
#include "kernels/simd/unroll-inl.h"

namespace moonlit {

// Values [k_begin, k_begin + count) of output `n` of a packed tile; both are multiples of the block.
using DecodeRange = void (*)(const uint8_t* tile, size_t n, size_t k_begin, size_t count, float* values);

namespace MOONLIT_FLOATS_NS {
// ProductKernel::multiply_exact of a block format (exact.cc).
void MultiplyDecoded(const ProductArgs& args, size_t tile_bytes, DecodeRange decode);
}  // namespace MOONLIT_FLOATS_NS

namespace MOONLIT_NS {

// Values that are decoded at a time.
inline constexpr size_t kDecodedPiece = 256;

void QuantizeA8(const float* x, size_t x_stride, size_t rows, size_t k, const A8View& out);
void QuantizeA8Twice(const float* x, size_t x_stride, size_t rows, size_t k, const A8View& out);

// Addresses only: nothing of a variant may run before main, on a CPU that may not have its instructions.
extern const ProductKernel* const kProducts[];

}  // namespace MOONLIT_NS
}  // namespace moonlit
