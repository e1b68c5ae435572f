// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/variant-inl.h"
#include "kernels/norm/norm.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

constexpr float kInfinity = __builtin_inff();
constexpr float kShrink = 0x1p-80f;  // (FLT_MAX * 2^-80)^2 * 10^9 is still finite

// Sum over i of (x[i] * scale - shift)^Power, Power 1 or 2: four accumulators over ascending vectors (an addition takes
// four cycles on the cores we know), the tail into the first one, then a fixed tree.
template <int kPower>
float Sum(const float* x, size_t d, float scale, float shift) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  const auto factor = hn::Set(tag, scale);
  const auto minus = hn::Set(tag, shift);
  auto add = [&](hn::Vec<D> sum, hn::Vec<D> v)
                 HWY_ATTR { return kPower == 1 ? hn::Add(sum, v) : hn::MulAdd(v, v, sum); };
  auto term = [&](const float* p) HWY_ATTR { return hn::Sub(hn::Mul(hn::LoadU(tag, p), factor), minus); };
  auto sum0 = hn::Zero(tag), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  size_t i = 0;
  for (; i + 4 * lanes <= d; i += 4 * lanes) {
    sum0 = add(sum0, term(x + i));
    sum1 = add(sum1, term(x + i + lanes));
    sum2 = add(sum2, term(x + i + 2 * lanes));
    sum3 = add(sum3, term(x + i + 3 * lanes));
  }
  for (; i + lanes <= d; i += lanes) sum0 = add(sum0, term(x + i));
  if (i < d) {
    const auto inside = hn::FirstN(tag, d - i);
    const auto v = hn::Sub(hn::Mul(hn::LoadN(tag, x + i, d - i), factor), minus);
    sum1 = add(sum1, hn::IfThenElseZero(inside, v));
  }
  return hn::ReduceSum(tag, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
}

// The scalar root and quotient are correctly rounded on every machine; the vector ones are estimates on ARMv7.
// An infinite value comes from an inf in the row: NaN then, not a row of zeros.
float InverseRoot(float value) { return value < kInfinity ? 1.0f / __builtin_sqrtf(value) : __builtin_nanf(""); }

// out = ((x - mean) * inverse * after) * weight + bias. `after` is a power of two that keeps `inverse` in range.
void Apply(const NormArgs& args, const float* x, float mean, float inverse, float after, const float* bias,
           float* out) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  const auto shift = hn::Set(tag, mean);
  const auto factor = hn::Set(tag, inverse);
  const auto power = hn::Set(tag, after);
  for (size_t i = 0; i < args.d; i += lanes) {
    const size_t n = args.d - i < lanes ? args.d - i : lanes;
    auto v = hn::Mul(hn::Mul(hn::Sub(hn::LoadN(tag, x + i, n), shift), power), factor);
    if (args.weight != nullptr) v = hn::Mul(v, hn::LoadN(tag, args.weight + i, n));
    if (bias != nullptr) v = hn::Add(v, hn::LoadN(tag, bias + i, n));
    hn::StoreN(v, tag, out + i, n);
  }
}

void RmsNormRows(const NormArgs& args) {
  const float count = static_cast<float>(args.d);
  for (size_t r = 0; r < args.rows; ++r) {
    const float* x = args.x + r * args.x_stride;
    float* out = args.out + r * args.out_stride;
    const float squares = Sum<2>(x, args.d, 1.0f, 0.0f);
    if (squares < kInfinity) {
      Apply(args, x, 0.0f, InverseRoot(squares / count + args.eps), 1.0f, nullptr, out);
    } else {  // too large to square, inf or NaN; beside such values eps is nothing
      Apply(args, x, 0.0f, InverseRoot(Sum<2>(x, args.d, kShrink, 0.0f) / count), kShrink, nullptr, out);
    }
  }
}

void LayerNormRows(const NormArgs& args) {
  const float count = static_cast<float>(args.d);
  for (size_t r = 0; r < args.rows; ++r) {
    const float* x = args.x + r * args.x_stride;
    float* out = args.out + r * args.out_stride;
    const float mean = Sum<1>(x, args.d, 1.0f, 0.0f) / count;
    const float variance = Sum<2>(x, args.d, 1.0f, mean) / count;
    if (variance < kInfinity) {
      Apply(args, x, mean, InverseRoot(variance + args.eps), 1.0f, args.bias, out);
    } else {
      const float small_mean = Sum<1>(x, args.d, kShrink, 0.0f) / count;
      const float inverse = InverseRoot(Sum<2>(x, args.d, kShrink, small_mean) / count);
      Apply(args, x, small_mean * (1.0f / kShrink), inverse, kShrink, args.bias, out);
    }
  }
}

}  // namespace

extern const NormTable kNormTable;
const NormTable kNormTable = {&RmsNormRows, &LayerNormRows};

}  // namespace MOONLIT_NS
}  // namespace moonlit
