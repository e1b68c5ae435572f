// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/reference.h"

#include <math.h>
#include <string.h>

#include <vector>

#include "kernels/base/round.h"

namespace moonlit {
namespace {

float MultiplyAdd(float a, float b, float c, bool fused) {
  if (fused) return fmaf(a, b, c);
  const float product = a * b;
  return product + c;
}

std::vector<float> Dequantized(const ReferenceProduct& p, size_t n) {
  std::vector<float> values(p.k);
  Traits(p.format).dequantize(p.weights + n * p.row_stride, values.data(), p.k);
  return values;
}

}  // namespace

void ReferenceA8(const ReferenceProduct& p, const A8View& a8, size_t row, bool fused, float* out) {
  const FormatTraits& traits = Traits(p.format);
  const int8_t* q = a8.q + row * a8.q_stride;
  const float* a_scale = a8.scale + row * a8.scale_stride;
  BlockCodes codes;
  for (size_t n = 0; n < p.n; ++n) {
    float acc = 0.0f;
    for (size_t b = 0; b < p.k / traits.block_values; ++b) {
      traits.codes(p.weights + n * p.row_stride + b * traits.block_bytes, &codes);
      for (size_t g = 0; g < codes.values / codes.group; ++g) {
        int64_t isum = 0, asum = 0;
        const size_t at = b * codes.values + g * codes.group;
        for (size_t i = 0; i < codes.group; ++i) {
          isum += static_cast<int64_t>(codes.code[g * codes.group + i]) * q[at + i];
          asum += q[at + i];
        }
        const float a = a_scale[at / kA8Group];
        acc = MultiplyAdd(static_cast<float>(isum), a * codes.scale[g], acc, fused);
        if (codes.has_min) acc = MultiplyAdd(static_cast<float>(asum), a * -codes.min[g], acc, fused);
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

void ReferenceA8Double(const ReferenceProduct& p, const A8View& a8, size_t row, double* out) {
  for (size_t n = 0; n < p.n; ++n) {
    const std::vector<float> w = Dequantized(p, n);
    double acc = 0.0;
    for (size_t i = 0; i < p.k; ++i) {
      const double a =
          static_cast<double>(a8.scale[row * a8.scale_stride + i / kA8Group]) * a8.q[row * a8.q_stride + i];
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

void ReferenceQuantizeA8(const float* x, size_t k, int8_t* q, float* scale, int16_t* sum16) {
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
    sum16[2 * g] = sum16[2 * g + 1] = 0;
    for (size_t i = 0; i < kA8Group; ++i) {
      const bool used = finite && !zeros && begin + i < end;
      // nearbyintf: to nearest, ties to even, in the default rounding mode.
      q[begin + i] = used ? static_cast<int8_t>(nearbyintf(x[begin + i] * (127.0f / largest))) : int8_t{0};
      sum16[2 * g + i / 16] = static_cast<int16_t>(sum16[2 * g + i / 16] + q[begin + i]);
    }
  }
}

}  // namespace moonlit
