// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/reference.h"

#include <math.h>

#include <vector>

namespace moonlit {
namespace {

std::vector<double> Row(const float* x, size_t n) { return std::vector<double>(x, x + n); }

void Normalise(std::vector<double>& x, double eps) {
  double squares = eps;
  for (double value : x) squares += value * value;
  for (double& value : x) value /= sqrt(squares);
}

void Feature(std::vector<double>& x) {
  for (double& value : x) value = value > 0 ? value + 1 : exp(value);
}

}  // namespace

void ReferenceLinearAttention(const ReferenceRecurrence& head, size_t tokens, const float* q, const float* k,
                              const float* v, double* out) {
  const size_t keys = head.key_dim, values = head.value_dim;
  for (size_t t = 0; t < tokens; ++t) {
    std::vector<double> key = Row(k + t * keys, keys), query = Row(q + t * keys, keys);
    Feature(key);
    Feature(query);
    double denominator = head.eps;
    std::vector<double> sum(values);
    for (size_t i = 0; i < keys; ++i) {
      head.sums[i] += key[i];
      denominator += query[i] * head.sums[i];
      for (size_t j = 0; j < values; ++j) {
        head.state[i * values + j] += key[i] * static_cast<double>(v[t * values + j]);
        sum[j] += query[i] * head.state[i * values + j];
      }
    }
    for (size_t j = 0; j < values; ++j) out[t * values + j] = denominator == 0 ? 0 : sum[j] / denominator;
  }
}

void ReferenceGatedDelta(const ReferenceRecurrence& head, size_t tokens, const float* q, const float* k, const float* v,
                         const float* g, const float* beta, double* out) {
  const size_t keys = head.key_dim, values = head.value_dim;
  for (size_t t = 0; t < tokens; ++t) {
    std::vector<double> key = Row(k + t * keys, keys), query = Row(q + t * keys, keys);
    if (head.normalise) {
      Normalise(key, head.eps);
      Normalise(query, head.eps);
    }
    const double decay = exp(static_cast<double>(g[t]));
    std::vector<double> found(values), sum(values);
    for (size_t i = 0; i < keys; ++i) {
      for (size_t j = 0; j < values; ++j) found[j] += key[i] * (head.state[i * values + j] *= decay);
    }
    for (size_t i = 0; i < keys; ++i) {
      for (size_t j = 0; j < values; ++j) {
        const double missing = static_cast<double>(v[t * values + j]) - found[j];
        head.state[i * values + j] += static_cast<double>(beta[t]) * key[i] * missing;
        sum[j] += head.scale * query[i] * head.state[i * values + j];
      }
    }
    for (size_t j = 0; j < values; ++j) out[t * values + j] = sum[j];
  }
}

void ReferenceShortConv(size_t tokens, size_t channels, size_t width, const float* x, const float* weight,
                        const float* bias, double* out) {
  for (size_t t = 0; t < tokens; ++t) {
    for (size_t c = 0; c < channels; ++c) {
      double sum = bias != nullptr ? static_cast<double>(bias[c]) : 0.0;
      for (size_t j = 0; j < width; ++j) {
        sum += static_cast<double>(weight[j * channels + c]) * static_cast<double>(x[(t + j) * channels + c]);
      }
      out[t * channels + c] = sum;
    }
  }
}

double ReferenceDecay(double alpha, double rate, double bias) {
  const double x = alpha + bias;
  return rate * (fmax(x, 0) + log1p(exp(-fabs(x))));
}

}  // namespace moonlit
