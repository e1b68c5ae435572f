// SPDX-License-Identifier: Apache-2.0
// The short convolution, and decays of a gate.
#pragma once

#include "kernels/linear_attention/rows-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// Input `index` of the call, counted from its oldest remembered one.
HWY_INLINE const float* InputRow(const ShortConvArgs& args, size_t index) {
  return index + 1 < args.width ? args.state + index * args.state_stride
                                : args.x + (index + 1 - args.width) * args.x_stride;
}

// One vector of a token's outputs, from column c on.
template <class Load>
MOONLIT_INNER V Convolve(const ShortConvArgs& args, const float* const* rows, size_t c, Load load) {
  V sum = args.bias != nullptr ? load(args.bias + c) : hn::Zero(D());
  for (size_t j = 0; j < args.width; ++j) {
    sum = hn::MulAdd(load(args.weight + j * args.weight_stride + c), load(rows[j] + c), sum);
  }
  return sum;
}

void ShortConv(const ShortConvArgs& args) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  for (size_t t = 0; t < args.tokens; ++t) {
    const float* rows[kShortConvMostWidth];
    for (size_t j = 0; j < args.width; ++j) rows[j] = InputRow(args, t + j);
    float* out = args.out + t * args.out_stride;
    size_t c = 0;
    for (; c + lanes <= args.channels; c += lanes) {
      const auto whole = [&](const float* p) MOONLIT_INLINE_LAMBDA { return hn::LoadU(tag, p); };
      hn::StoreU(Convolve(args, rows, c, whole), tag, out + c);
    }
    if (c == args.channels) continue;
    const size_t left = args.channels - c;
    const auto part = [&](const float* p) MOONLIT_INLINE_LAMBDA { return hn::LoadN(tag, p, left); };
    hn::StoreN(Convolve(args, rows, c, part), tag, out + c, left);
  }
  // A remembered row moves up only over rows that are older, so ascending order reads none that is overwritten.
  for (size_t j = 0; j + 1 < args.width; ++j) {
    const float* row = InputRow(args, args.tokens + j);
    float* remembered = args.state + j * args.state_stride;
    for (size_t c = 0; c < args.channels; ++c) remembered[c] = row[c];
  }
}

// log(1 + y) for 0 <= y <= 1 as 2 artanh(s), s = y / (2 + y) <= 1/3: s + s^3/3 + ... up to s^17/17, what is left out is
// below 2^-30 of the sum.
MOONLIT_INNER V LogOfOneAnd(V y) {
  const D tag;
  const V s = hn::Div(y, hn::Add(y, hn::Set(tag, 2.0f)));
  const V square = hn::Mul(s, s);
  V p = hn::Set(tag, 1.0f / 17);
  for (int n = 15; n >= 3; n -= 2) p = hn::MulAdd(p, square, hn::Set(tag, 1.0f / static_cast<float>(n)));
  const V twice = hn::Add(s, s);
  return hn::MulAdd(hn::Mul(p, square), twice, twice);
}

void Decay(const float* alpha, const float* rate, const float* bias, float* out, size_t n) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = n - i < lanes ? n - i : lanes;
    const V x = hn::Add(hn::LoadN(tag, alpha + i, count), hn::LoadN(tag, bias + i, count));
    const V positive = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(tag)), x);  // unlike Max it keeps a NaN
    const V softplus = hn::Add(positive, LogOfOneAnd(Exp(tag, hn::Neg(hn::Abs(x)))));
    hn::StoreN(hn::Mul(hn::LoadN(tag, rate + i, count), softplus), tag, out + i, count);
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
