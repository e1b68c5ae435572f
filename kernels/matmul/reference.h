// SPDX-License-Identifier: Apache-2.0
// Scalar products straight from file-format bytes: the judge of the packed kernels. Integer sums are int64, floats follow
// the contract's order (matmul.h), so a kernel must give the same bits. Slow, obvious, baseline code.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/matmul/a8.h"
#include "kernels/quant/format.h"

namespace moonlit {

struct ReferenceProduct {
  Format format;
  const uint8_t* weights;  // [n] rows in file format, row_stride bytes apart
  size_t row_stride;
  size_t n, k;
};

// out[n] for one row of activations. `fused`: whether the variant's MulAdd rounds once (all but x86_ssse3 and scalar).
void ReferenceA8(const ReferenceProduct& product, const A8View& a8, size_t row, bool fused, float* out);
// The same with float activations on dequantized weights, k ascending: what multiply_exact and the plain formats give.
void ReferenceFloat(const ReferenceProduct& product, const float* x, bool fused, float* out);
// The same by bf16 dot products, factors rounded to bf16, numbers below the normal ones taken for zeros:
//   kNearest   as vdpbf16ps does it: the odd k of a pair is added before the even one, each sum rounded once (Intel's Software
//              Developer's Manual, VDPBF16PS)
//   kToOdd     as bfdot does it: both products, their sum, and its sum with what was there are each rounded to odd (Arm
//              Architecture Reference Manual, shared pseudocode BFMul, BFAdd, BFRound; FPCR.EBF = 0)
enum class PairRounding : uint8_t { kNearest, kToOdd };
void ReferencePairs(const ReferenceProduct& product, const float* x, PairRounding rounding, float* out);
// In float64 on the same dequantized values, for error bounds.
void ReferenceA8Double(const ReferenceProduct& product, const A8View& a8, size_t row, double* out);
void ReferenceDouble(const ReferenceProduct& product, const float* x, double* out);

// The definition in a8.h, one row: q[RoundUp(k, 32)], scale[groups], minus_sum[2 * groups].
void ReferenceQuantizeA8(const float* x, size_t k, int8_t* q, float* scale, int32_t* minus_sum);
// What that rounding lost: lost[k], the second term's input.
void ReferenceLostByA8(const float* x, size_t k, const int8_t* q, const float* scale, float* lost);

}  // namespace moonlit
