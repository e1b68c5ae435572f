// SPDX-License-Identifier: Apache-2.0
// exp2, exp and tanh of f32 vectors. `d` is any float descriptor of the variant.
//
//   V p = Exp2(d, x);    // 2^x
//   V e = Exp(d, x);     // e^x
//   V t = Tanh(d, x);
//
// Error below 2 ulp where the result is normal. Results below 2^-126 are 0, above the largest float +inf; Exp2(0),
// Exp(0) are exactly 1; NaN stays NaN. Straight code without branches: one lane never depends on another.
//
// How: x = n + f with n the nearest integer, found by adding 1.5 * 2^23, which leaves n in the low bits of the sum. 2^f
// is a polynomial of degree 6 on [-1/2, 1/2] (Chebyshev fit, truncation below 2^-28), and n is added to its exponent
// field.
#pragma once

#include "kernels/cpu/variant-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// 1.5 * 2^23: for |x| < 2^22, x + kRoundingShift has round(x) in its low bits.
constexpr float kRoundingShift = 12582912.0f;

// 2^f for |f| <= 1/2.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
MOONLIT_INNER V Exp2OfFraction(D d, V f) {
  namespace hn = hwy::HWY_NAMESPACE;
  V p = hn::MulAdd(hn::Set(d, 0x1.44138ap-13f), f, hn::Set(d, 0x1.5f089p-10f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.3b2a54p-7f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.c6af6cp-5f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.ebfbe0p-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.62e430p-1f));
  return hn::MulAdd(p, f, hn::Set(d, 1.0f));
}

// p * 2^n, n in the low bits of `shifted`; `x` (in units of log2) decides about underflow, overflow and NaN.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
MOONLIT_INNER V ScaleByPowerOfTwo(D d, V p, V shifted, V x, V lowest, V limit) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  const V scaled = hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
  const V infinity = hn::BitCast(d, hn::Set(di, 0x7F800000));
  return hn::IfThenZeroElse(hn::Lt(x, lowest), hn::IfThenElse(hn::Lt(x, limit), scaled, hn::Add(x, infinity)));
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
MOONLIT_INNER V Exp2(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V shift = hn::Set(d, kRoundingShift);
  const V shifted = hn::Add(x, shift);
  const V f = hn::Sub(x, hn::Sub(shifted, shift));
  return ScaleByPowerOfTwo(d, Exp2OfFraction(d, f), shifted, x, hn::Set(d, -126.0f), hn::Set(d, 128.0f));
}

// 2^x for x <= 127, -inf or NaN: two operations fewer than Exp2, the same bits.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
MOONLIT_INNER V Exp2UpTo127(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  const V shift = hn::Set(d, kRoundingShift);
  const V shifted = hn::Add(x, shift);
  const V f = hn::Sub(x, hn::Sub(shifted, shift));
  const auto power = hn::Add(hn::ShiftLeft<23>(hn::BitCast(di, shifted)), hn::Set(di, 127 << 23));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0f)), hn::Mul(Exp2OfFraction(d, f), hn::BitCast(d, power)));
}

// ln 2 is split into a part with 15 bits, whose product with n is exact, and the rest (Cody & Waite 1980).
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
MOONLIT_INNER V Exp(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V shift = hn::Set(d, kRoundingShift);
  const V shifted = hn::MulAdd(x, hn::Set(d, 0x1.715476p+0f), shift);
  const V n = hn::Sub(shifted, shift);
  V f = hn::NegMulAdd(n, hn::Set(d, 0x1.62e4p-1f), x);
  f = hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20f), f);
  V p = hn::MulAdd(hn::Set(d, 0x1.6d117cp-10f), f, hn::Set(d, 0x1.120be2p-7f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.555518p-5f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.5554dcp-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.5f));
  // (1 + f) + f^2 * p: the small term is added last, so its rounding does not count.
  p = hn::Add(hn::MulAdd(hn::Mul(f, f), p, f), hn::Set(d, 1.0f));
  return ScaleByPowerOfTwo(d, p, shifted, x, hn::Set(d, -0x1.5d589ep+6f), hn::Set(d, 0x1.62e430p+6f));
}

// Below 0.625 an odd polynomial (relative accuracy near 0), above it 1 - 2 / (e^(2|x|) + 1).
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
MOONLIT_INNER V Tanh(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V one = hn::Set(d, 1.0f);
  const V magnitude = hn::Abs(x);
  const V square = hn::Mul(x, x);
  V p = hn::MulAdd(hn::Set(d, -0x1.8f8de4p-8f), square, hn::Set(d, 0x1.58048ep-6f));
  p = hn::MulAdd(p, square, hn::Set(d, -0x1.b9258ap-5f));
  p = hn::MulAdd(p, square, hn::Set(d, 0x1.110e1cp-3f));
  p = hn::MulAdd(p, square, hn::Set(d, -0x1.555552p-2f));
  const V small = hn::MulAdd(hn::Mul(p, square), x, x);
  const V e = Exp(d, hn::Add(magnitude, magnitude));
  const V large = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.625f)), small, hn::CopySign(large, x));
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
