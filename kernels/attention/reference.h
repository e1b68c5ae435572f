// SPDX-License-Identifier: Apache-2.0
// Attention of one query row in float64 over plain arrays: the judge of the fused kernels. Written as the formula
// reads.
//
//   score[j] = cap(scale * q . k[j]) + alibi_slope * (j - position)         for first <= j < last
//   out      = sum_j exp(score[j]) v[j] / (sum_j exp(score[j]) + exp(sink))
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit {

struct ReferenceAttentionArgs {
  const float* q;       // [key_dim]
  const float* keys;    // [last, key_dim], row-major
  const float* values;  // [last, value_dim], row-major
  size_t key_dim;
  size_t value_dim;
  int64_t first;  // visible: first <= j < last; nothing visible: zeros
  int64_t last;
  double scale;
  double softcap;  // 0: off
  bool has_sink;
  double sink;
  double alibi_slope;  // 0: off
  int64_t position;
  double* scores;  // scratch, [last - first]
  double* out;     // [value_dim]
};

void ReferenceAttention(const ReferenceAttentionArgs& args);

}  // namespace moonlit
