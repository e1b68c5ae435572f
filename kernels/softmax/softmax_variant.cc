// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/variant-inl.h"
#include "kernels/simd/exp-inl.h"
#include "kernels/softmax/softmax.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

constexpr float kInfinity = __builtin_inff();

void Fill(float* out, size_t n, float value) {
  for (size_t i = 0; i < n; ++i) out[i] = value;
}

// The largest element, NaN if there is one.
float Largest(const float* x, size_t n) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  auto largest = hn::Set(tag, -kInfinity);
  auto is_nan = hn::MaskFalse(tag);
  for (size_t i = 0; i < n; i += lanes) {
    const auto v = hn::LoadNOr(hn::Set(tag, -kInfinity), tag, x + i, n - i < lanes ? n - i : lanes);
    is_nan = hn::Or(is_nan, hn::IsNaN(v));
    largest = hn::Max(largest, v);
  }
  return hn::AllFalse(tag, is_nan) ? hn::ReduceMax(tag, largest) : __builtin_nanf("");
}

void SoftmaxRow(const float* x, size_t n, float scale, float* out) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  const float largest = Largest(x, n) * scale;
  if (!(largest < kInfinity)) return Fill(out, n, __builtin_nanf(""));
  if (largest == -kInfinity) return Fill(out, n, 0.0f);
  const auto factor = hn::Set(tag, scale);
  const auto shift = hn::Set(tag, largest);
  auto sums = hn::Zero(tag);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = n - i < lanes ? n - i : lanes;
    const auto v = hn::LoadN(tag, x + i, count);
    // Multiply, then subtract: never above 0. Below -1e4 every exponential is 0, and -inf stays away from Exp.
    const auto y = hn::Max(hn::Sub(hn::Mul(v, factor), shift), hn::Set(tag, -1e4f));
    const auto e = hn::IfThenElseZero(hn::FirstN(tag, count), Exp(tag, y));
    sums = hn::Add(sums, e);
    hn::StoreN(e, tag, out + i, count);
  }
  const auto inverse = hn::Set(tag, 1.0f / hn::ReduceSum(tag, sums));
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = n - i < lanes ? n - i : lanes;
    hn::StoreN(hn::Mul(hn::LoadN(tag, out + i, count), inverse), tag, out + i, count);
  }
}

}  // namespace

extern const SoftmaxTable kSoftmaxTable;
const SoftmaxTable kSoftmaxTable = {&SoftmaxRow};

}  // namespace MOONLIT_NS
}  // namespace moonlit
