// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation/activation.h"
#include "kernels/cpu/variant-inl.h"
#include "kernels/simd/exp-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Applies `function` to vectors of one or two inputs; the last, partial vector is padded with zeros.
template <class Function>
HWY_INLINE void Map(const float* a, float* out, size_t n, Function function) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(function(hn::LoadU(tag, a + i)), tag, out + i);
  if (i < n) hn::StoreN(function(hn::LoadN(tag, a + i, n - i)), tag, out + i, n - i);
}

template <class Function>
HWY_INLINE void Map(const float* a, const float* b, float* out, size_t n, Function function) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(function(hn::LoadU(tag, a + i), hn::LoadU(tag, b + i)), tag, out + i);
  if (i < n) hn::StoreN(function(hn::LoadN(tag, a + i, n - i), hn::LoadN(tag, b + i, n - i)), tag, out + i, n - i);
}

// x / (1 + exp(-s)), with the exponential of a non-positive number only, so that nothing overflows.
MOONLIT_INNER V GateBySigmoid(V x, V s) {
  const D tag;
  const auto e = Exp(tag, hn::Neg(hn::Abs(s)));
  const auto numerator = hn::IfThenElse(hn::Lt(s, hn::Zero(tag)), hn::Mul(x, e), x);
  return hn::Div(numerator, hn::Add(hn::Set(tag, 1.0f), e));
}

// The exponential may take a NaN for a number.
MOONLIT_INNER V SigmoidOf(V x) { return hn::IfThenElse(hn::IsNaN(x), x, GateBySigmoid(hn::Set(D(), 1.0f), x)); }

HWY_INLINE V SiluOf(V x) { return GateBySigmoid(x, x); }

// (1 + tanh(y)) / 2 = 1 / (1 + exp(-2y)).
MOONLIT_INNER V GeluTanhOf(V x) {
  const D tag;
  const auto linear = hn::Set(tag, 1.5957691216057308f);  // 2 sqrt(2 / pi)
  const auto cubic = hn::Set(tag, 0.07135481282553242f);  // the same * 0.044715
  return GateBySigmoid(x, hn::Mul(x, hn::MulAdd(hn::Mul(x, x), cubic, linear)));
}

// The upper tail of the normal distribution, Q(a) = erfc(a / sqrt 2) / 2 for a >= 0, as exp(-a^2 / 2) * t * p(t) with
// t = 1 / (1 + 0.35 a). p interpolates at Chebyshev nodes over 0 <= a <= 14.5 (relative error 4.0e-8 before rounding);
// beyond it the exponential is 0 or subnormal.
MOONLIT_INNER V NormalTail(V a) {
  const D tag;
  const auto t = hn::Div(hn::Set(tag, 1.0f), hn::MulAdd(a, hn::Set(tag, 0.35f), hn::Set(tag, 1.0f)));
  auto p = hn::Set(tag, -0.029732275796133006f);
  p = hn::MulAdd(p, t, hn::Set(tag, 0.14678398601321543f));
  p = hn::MulAdd(p, t, hn::Set(tag, -0.2614105431204434f));
  p = hn::MulAdd(p, t, hn::Set(tag, 0.1655101647121961f));
  p = hn::MulAdd(p, t, hn::Set(tag, -0.027321910513625237f));
  p = hn::MulAdd(p, t, hn::Set(tag, 0.10721249937581553f));
  p = hn::MulAdd(p, t, hn::Set(tag, 0.11942509266298806f));
  p = hn::MulAdd(p, t, hn::Set(tag, 0.13991433390134814f));
  p = hn::MulAdd(p, t, hn::Set(tag, 0.13961863501323235f));
  const auto exponential = Exp(tag, hn::Mul(hn::Mul(a, a), hn::Set(tag, -0.5f)));
  return hn::Mul(hn::Mul(exponential, t), p);
}

MOONLIT_INNER V GeluOf(V x) {
  const D tag;
  const auto tail = NormalTail(hn::Abs(x));
  return hn::Mul(x, hn::IfThenElse(hn::Lt(x, hn::Zero(tag)), tail, hn::Sub(hn::Set(tag, 1.0f), tail)));
}

void Sigmoid(const float* x, float* out, size_t n) {
  Map(x, out, n, [](V v) HWY_ATTR { return SigmoidOf(v); });
}
void Silu(const float* x, float* out, size_t n) {
  Map(x, out, n, [](V v) HWY_ATTR { return SiluOf(v); });
}
void Gelu(const float* x, float* out, size_t n) {
  Map(x, out, n, [](V v) HWY_ATTR { return GeluOf(v); });
}
void GeluTanh(const float* x, float* out, size_t n) {
  Map(x, out, n, [](V v) HWY_ATTR { return GeluTanhOf(v); });
}
// Not Max, which loses a NaN on x86.
HWY_INLINE V ReluSquaredOf(V x) { return hn::Mul(x, hn::IfThenZeroElse(hn::Lt(x, hn::Zero(D())), x)); }

void ReluSquared(const float* x, float* out, size_t n) {
  Map(x, out, n, [](V v) HWY_ATTR { return ReluSquaredOf(v); });
}
void SwiGlu(const float* gate, const float* up, float* out, size_t n) {
  Map(gate, up, out, n, [](V g, V u) HWY_ATTR { return hn::Mul(SiluOf(g), u); });
}
void GeGlu(const float* gate, const float* up, float* out, size_t n) {
  Map(gate, up, out, n, [](V g, V u) HWY_ATTR { return hn::Mul(GeluOf(g), u); });
}
void GeGluTanh(const float* gate, const float* up, float* out, size_t n) {
  Map(gate, up, out, n, [](V g, V u) HWY_ATTR { return hn::Mul(GeluTanhOf(g), u); });
}
void ReGluSquared(const float* gate, const float* up, float* out, size_t n) {
  Map(gate, up, out, n, [](V g, V u) HWY_ATTR { return hn::Mul(ReluSquaredOf(g), u); });
}
void SoftCap(const float* x, float cap, float* out, size_t n) {
  const auto limit = hn::Set(D(), cap);
  Map(x, out, n,
      [&](V v) HWY_ATTR { return hn::IfThenElse(hn::IsNaN(v), v, hn::Mul(limit, Tanh(D(), hn::Div(v, limit)))); });
}
void Clamp(const float* x, float limit, float* out, size_t n) {
  const auto high = hn::Set(D(), limit), low = hn::Set(D(), -limit);
  Map(x, out, n, [&](V v) HWY_ATTR {  // a NaN is neither
    return hn::IfThenElse(hn::Gt(v, high), high, hn::IfThenElse(hn::Lt(v, low), low, v));
  });
}
void Add(const float* a, const float* b, float* out, size_t n) {
  Map(a, b, out, n, [](V v, V w) HWY_ATTR { return hn::Add(v, w); });
}
void Mul(const float* a, const float* b, float* out, size_t n) {
  Map(a, b, out, n, [](V v, V w) HWY_ATTR { return hn::Mul(v, w); });
}
void Scale(const float* x, float factor, float* out, size_t n) {
  const auto by = hn::Set(D(), factor);
  Map(x, out, n, [&](V v) HWY_ATTR { return hn::Mul(v, by); });
}
void AddScaled(const float* x, float factor, float* out, size_t n) {
  const auto by = hn::Set(D(), factor);
  Map(x, out, out, n, [&](V v, V sum) HWY_ATTR { return hn::MulAdd(v, by, sum); });
}

}  // namespace

extern const ActivationTable kActivationTable;
const ActivationTable kActivationTable = {&Sigmoid, &Silu,  &Gelu,      &GeluTanh,     &ReluSquared,
                                          &SwiGlu,  &GeGlu, &GeGluTanh, &ReGluSquared, &SoftCap,
                                          &Clamp,   &Add,   &Mul,       &Scale,        &AddScaled};

}  // namespace MOONLIT_NS
}  // namespace moonlit
