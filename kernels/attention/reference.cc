// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/reference.h"

#include <math.h>

namespace moonlit {
namespace {

double Score(const ReferenceAttentionArgs& args, int64_t j) {
  const float* key = args.keys + static_cast<size_t>(j) * args.key_dim;
  double dot = 0;
  for (size_t i = 0; i < args.key_dim; ++i) dot += static_cast<double>(args.q[i]) * key[i];
  double score = dot * args.scale;
  if (args.softcap != 0) score = args.softcap * tanh(score / args.softcap);
  return score + args.alibi_slope * static_cast<double>(j - args.position);
}

}  // namespace

void ReferenceAttention(const ReferenceAttentionArgs& args) {
  for (size_t d = 0; d < args.value_dim; ++d) args.out[d] = 0;
  if (args.first >= args.last) return;
  double max = args.has_sink ? args.sink : -INFINITY;
  for (int64_t j = args.first; j < args.last; ++j) {
    args.scores[j - args.first] = Score(args, j);
    max = fmax(max, args.scores[j - args.first]);
  }
  double sum = args.has_sink ? exp(args.sink - max) : 0;
  for (int64_t j = args.first; j < args.last; ++j) {
    const double p = exp(args.scores[j - args.first] - max);
    sum += p;
    const float* value = args.values + static_cast<size_t>(j) * args.value_dim;
    for (size_t d = 0; d < args.value_dim; ++d) args.out[d] += p * value[d];
  }
  for (size_t d = 0; d < args.value_dim; ++d) args.out[d] /= sum;
}

}  // namespace moonlit
