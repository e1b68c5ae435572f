// SPDX-License-Identifier: Apache-2.0
// Rows on their way into and out of the recurrences: padded to whole vectors with zeros, mapped or normalised.
#pragma once

#include "kernels/linear_attention/linear_attention.h"
#include "kernels/linear_attention/product-inl.h"
#include "kernels/simd/exp-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// y[i] = f(x[i]) for i < n, 0 up to the padded length.
template <class Function>
MOONLIT_INNER void MapRow(const float* x, size_t n, float* y, Function function) {
  const D tag;
  const size_t lanes = hn::Lanes(tag), padded = RecurrentPadded(n);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(function(hn::LoadU(tag, x + i)), tag, y + i);
  for (; i < padded; i += lanes) {
    const size_t left = i < n ? n - i : 0;
    hn::StoreU(hn::IfThenElseZero(hn::FirstN(tag, left), function(hn::LoadN(tag, x + (left != 0 ? i : 0), left))), tag,
               y + i);
  }
}

MOONLIT_INNER void CopyRow(const float* x, size_t n, float* y) {
  MapRow(x, n, y, [](V v) MOONLIT_INLINE_LAMBDA { return v; });
}

MOONLIT_INNER void ScaleRow(const float* x, size_t n, float factor, float* y) {
  const V by = hn::Set(D(), factor);
  MapRow(x, n, y, [&](V v) MOONLIT_INLINE_LAMBDA { return hn::Mul(v, by); });
}

// elu(x) + 1
MOONLIT_INNER void FeatureRow(const float* x, size_t n, float* y) {
  MapRow(x, n, y, [](V v) MOONLIT_INLINE_LAMBDA {
    const D tag;
    const V above = hn::Add(v, hn::Set(tag, 1.0f));
    return hn::IfThenElse(hn::Gt(v, hn::Zero(tag)), above, Exp(tag, v));
  });
}

// x: [n] -> out, of which only n floats are written.
MOONLIT_INNER void StoreRow(const float* x, size_t n, float factor, float* out) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  const V by = hn::Set(tag, factor);
  for (size_t i = 0; i < n; i += lanes) {
    hn::StoreN(hn::Mul(hn::LoadU(tag, x + i), by), tag, out + i, n - i < lanes ? n - i : lanes);
  }
}

// Sum of a[i] * b[i], n a multiple of 16: four accumulators over ascending vectors, then a fixed tree.
MOONLIT_INNER float Dot(const float* a, const float* b, size_t n) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  V sum0 = hn::Zero(tag), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  const auto add = [&](V sum, size_t i)
                       MOONLIT_INLINE_LAMBDA { return hn::MulAdd(hn::LoadU(tag, a + i), hn::LoadU(tag, b + i), sum); };
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    sum0 = add(sum0, i);
    sum1 = add(sum1, i + lanes);
    sum2 = add(sum2, i + 2 * lanes);
    sum3 = add(sum3, i + 3 * lanes);
  }
  for (; i < n; i += lanes) sum0 = add(sum0, i);
  return hn::ReduceSum(tag, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
}

// Sum of n floats, n a multiple of 16.
MOONLIT_INNER float SumRow(const float* x, size_t n) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  V sum = hn::Zero(tag);
  for (size_t i = 0; i < n; i += lanes) sum = hn::Add(sum, hn::LoadU(tag, x + i));
  return hn::ReduceSum(tag, sum);
}

MOONLIT_INNER float ExpOf(float x) { return hn::GetLane(Exp(D(), hn::Set(D(), x))); }

// The keys and queries that a recurrence works with.
template <bool kDelta>
void PrepareRow(const RecurrentArgs& args, const float* x, bool is_query, float* y) {
  if constexpr (!kDelta) {
    FeatureRow(x, args.key_dim, y);
  } else {
    float factor = is_query ? args.scale : 1.0f;
    if (args.normalise) {
      CopyRow(x, args.key_dim, y);
      const float squares = Dot(y, y, RecurrentPadded(args.key_dim));
      factor *= 1.0f / __builtin_sqrtf(squares + args.eps);
    }
    ScaleRow(x, args.key_dim, factor, y);
  }
}

HWY_INLINE float InverseOrZero(float denominator) { return denominator == 0.0f ? 0.0f : 1.0f / denominator; }

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
