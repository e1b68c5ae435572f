// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/reference.h"

#include <math.h>
#include <string.h>

#include <vector>

#include "kernels/base/float16.h"
#include "kernels/base/round.h"

namespace moonlit {
namespace {

float MultiplyAdd(float a, float b, float c, bool fused) {
  if (fused) return fmaf(a, b, c);
  const float product = a * b;
  return product + c;
}

// acc + the product of one group of activations with the codes from `at` on (matmul.h).
float AddGroup(const BlockCodes& codes, size_t at, const int8_t* q, float a_scale, bool fused, float acc) {
  const size_t parts = kA8Group / codes.group;
  float isum[2], minus_sum[2];
  for (size_t p = 0; p < parts; ++p) {
    int64_t of_products = 0, of_activations = 0;
    for (size_t i = p * codes.group; i < (p + 1) * codes.group; ++i) {
      of_products += static_cast<int64_t>(codes.code[at + i]) * q[i];
      of_activations += q[i];
    }
    isum[p] = static_cast<float>(of_products);
    minus_sum[p] = static_cast<float>(-of_activations);
  }
  const float* scale = codes.scale + at / codes.group;
  const float* min = codes.min + at / codes.group;
  if (parts == 1 && !codes.has_min) return MultiplyAdd(isum[0], a_scale * scale[0], acc, fused);
  float sum = isum[0] * scale[0];
  for (size_t p = 1; p < parts; ++p) sum = MultiplyAdd(isum[p], scale[p], sum, fused);
  for (size_t p = 0; codes.has_min && p < parts; ++p) sum = MultiplyAdd(minus_sum[p], min[p], sum, fused);
  return MultiplyAdd(a_scale, sum, acc, fused);
}

std::vector<float> Dequantized(const ReferenceProduct& p, size_t n) {
  std::vector<float> values(p.k);
  Traits(p.format).dequantize(p.weights + n * p.row_stride, values.data(), p.k);
  return values;
}

// Zero for numbers below the normal ones.
float Flushed(float value) { return fabsf(value) < 0x1p-126f ? copysignf(0.0f, value) : value; }

// A double that holds the exact value, or was itself rounded to odd, as a float: cut off, with the last bit set if that lost
// something; too large numbers are infinite.
float ToOdd(double exact) {
  if (!isfinite(exact)) return static_cast<float>(exact);
  const double magnitude = fabs(exact);
  if (magnitude >= 0x1p128) return static_cast<float>(copysign(HUGE_VAL, exact));
  if (magnitude < 0x1p-126) return static_cast<float>(copysign(0.0, exact));
  uint64_t bits;
  memcpy(&bits, &exact, sizeof(bits));
  const uint64_t lost = bits & ((uint64_t{1} << 29) - 1);
  bits = bits - lost + (lost != 0 && (bits >> 29 & 1) == 0 ? uint64_t{1} << 29 : 0);
  memcpy(&exact, &bits, sizeof(bits));
  return static_cast<float>(exact);  // 24 bits are left: exact
}

// The product of two bf16 has 16 bits.
float MultiplyToOdd(float a, float b) { return ToOdd(static_cast<double>(a) * static_cast<double>(b)); }

float AddToOdd(float a, float b) {
  const double x = a, y = b;
  double sum = x + y;
  if (!isfinite(sum)) return static_cast<float>(sum);
  // What the double lost (Knuth's two-sum), as its own last bit.
  const double part = sum - x;
  const double lost = (x - (sum - part)) + (y - part);
  uint64_t bits;
  memcpy(&bits, &sum, sizeof(bits));
  if (lost != 0.0 && bits % 2 == 0) sum = nextafter(sum, lost > 0.0 ? HUGE_VAL : -HUGE_VAL);
  return ToOdd(sum);
}

}  // namespace

void ReferenceA8(const ReferenceProduct& p, const A8View& a8, size_t row, bool fused, float* out) {
  const FormatTraits& traits = Traits(p.format);
  BlockCodes codes;
  for (size_t n = 0; n < p.n; ++n) {
    float acc = 0.0f;
    for (size_t b = 0; b < p.k / traits.block_values; ++b) {
      traits.codes(p.weights + n * p.row_stride + b * traits.block_bytes, &codes);
      for (size_t at = 0; at < codes.values; at += kA8Group) {
        const size_t group = (b * codes.values + at) / kA8Group;
        acc = AddGroup(codes, at, A8Values(a8, row, group), *A8Scale(a8, row, group), fused, acc);
      }
    }
    out[n] = acc;
  }
}

void ReferenceFloat(const ReferenceProduct& p, const float* x, bool fused, float* out) {
  for (size_t n = 0; n < p.n; ++n) {
    const std::vector<float> w = Dequantized(p, n);
    float acc = 0.0f;
    for (size_t i = 0; i < p.k; ++i) acc = MultiplyAdd(x[i], w[i], acc, fused);
    out[n] = acc;
  }
}

void ReferencePairs(const ReferenceProduct& p, const float* x, PairRounding rounding, float* out) {
  const auto rounded = [](float value) { return Flushed(F32FromBF16(BF16FromF32(value))); };
  for (size_t n = 0; n < p.n; ++n) {
    const std::vector<float> w = Dequantized(p, n);
    float acc = 0.0f;
    for (size_t i = 0; i < p.k; i += 2) {
      const float x0 = rounded(x[i]), w0 = rounded(w[i]);
      const float x1 = i + 1 < p.k ? rounded(x[i + 1]) : 0.0f, w1 = i + 1 < p.k ? rounded(w[i + 1]) : 0.0f;
      if (rounding == PairRounding::kToOdd) {
        acc = AddToOdd(acc, AddToOdd(MultiplyToOdd(x0, w0), MultiplyToOdd(x1, w1)));
      } else {
        if (i + 1 < p.k) acc = fmaf(x1, w1, acc);
        acc = fmaf(x0, w0, acc);
      }
    }
    out[n] = acc;
  }
}

void ReferenceA8Double(const ReferenceProduct& p, const A8View& a8, size_t row, double* out) {
  for (size_t n = 0; n < p.n; ++n) {
    const std::vector<float> w = Dequantized(p, n);
    double acc = 0.0;
    for (size_t i = 0; i < p.k; ++i) {
      const size_t group = i / kA8Group;
      const double a = static_cast<double>(*A8Scale(a8, row, group)) * A8Values(a8, row, group)[i % kA8Group];
      acc += a * static_cast<double>(w[i]);
    }
    out[n] = acc;
  }
}

void ReferenceDouble(const ReferenceProduct& p, const float* x, double* out) {
  for (size_t n = 0; n < p.n; ++n) {
    const std::vector<float> w = Dequantized(p, n);
    double acc = 0.0;
    for (size_t i = 0; i < p.k; ++i) acc += static_cast<double>(x[i]) * static_cast<double>(w[i]);
    out[n] = acc;
  }
}

void ReferenceQuantizeA8(const float* x, size_t k, int8_t* q, float* scale, int32_t* minus_sum) {
  for (size_t g = 0; g < CeilDiv(k, kA8Group); ++g) {
    const size_t begin = g * kA8Group;
    const size_t end = begin + kA8Group < k ? begin + kA8Group : k;
    float largest = 0.0f;
    bool finite = true;
    for (size_t i = begin; i < end; ++i) {
      finite = finite && isfinite(x[i]);
      if (fabsf(x[i]) > largest) largest = fabsf(x[i]);
    }
    const bool zeros = largest < kA8Smallest;
    scale[g] = !finite ? NAN : zeros ? 0.0f : largest / 127.0f;
    minus_sum[2 * g] = minus_sum[2 * g + 1] = 0;
    for (size_t i = 0; i < kA8Group; ++i) {
      const bool used = finite && !zeros && begin + i < end;
      // nearbyintf: to nearest, ties to even, in the default rounding mode.
      q[begin + i] = used ? static_cast<int8_t>(nearbyintf(x[begin + i] * (127.0f / largest))) : int8_t{0};
      minus_sum[2 * g + i / 16] -= q[begin + i];
    }
  }
}

void ReferenceLostByA8(const float* x, size_t k, const int8_t* q, const float* scale, float* lost) {
  for (size_t i = 0; i < k; ++i) {
    const float kept = scale[i / kA8Group] * static_cast<float>(q[i]);
    lost[i] = x[i] - kept;
  }
}

}  // namespace moonlit
