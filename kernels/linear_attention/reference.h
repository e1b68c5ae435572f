// SPDX-License-Identifier: Apache-2.0
// The recurrences of linear_attention.h in double precision, token by token as they are written: what the kernels are tested
// against. Arrays are dense, row-major, of one head.
#pragma once

#include <stddef.h>

namespace moonlit {

struct ReferenceRecurrence {
  size_t key_dim, value_dim;
  double eps;
  bool normalise;  // delta rule only, as is scale
  double scale;
  double* state;  // [key_dim, value_dim], moved on
  double* sums;   // z, [key_dim]; linear attention only
};

// q, k: [tokens, key_dim], v: [tokens, value_dim], g, beta: [tokens] -> out: [tokens, value_dim].
void ReferenceLinearAttention(const ReferenceRecurrence& head, size_t tokens, const float* q, const float* k,
                              const float* v, double* out);
void ReferenceGatedDelta(const ReferenceRecurrence& head, size_t tokens, const float* q, const float* k, const float* v,
                         const float* g, const float* beta, double* out);

// x: [width - 1 + tokens, channels], the first rows being the past; weight: [width, channels]; bias: [channels] or null.
void ReferenceShortConv(size_t tokens, size_t channels, size_t width, const float* x, const float* weight,
                        const float* bias, double* out);

double ReferenceDecay(double alpha, double rate, double bias);

}  // namespace moonlit
