// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/attention.h"

#include <algorithm>
#include <cmath>

namespace moonlit::reference {

std::vector<double> Attend(const AttentionRule& rule, const std::vector<double>& q, int64_t query,
                           const std::vector<std::vector<double>>& keys, const std::vector<std::vector<double>>& values,
                           const std::vector<int64_t>& positions) {
  const size_t d = rule.key_dim, dv = rule.value_dim;
  std::vector<double> out(rule.heads * dv);
  for (size_t h = 0; h < rule.heads; ++h) {
    const size_t kv = h / (rule.heads / rule.kv_heads);
    std::vector<double> scores(keys.size(), -INFINITY);
    double largest = rule.sinks.empty() ? -INFINITY : rule.sinks[h];
    bool any = false;
    for (size_t j = 0; j < keys.size(); ++j) {
      if (rule.sees && !rule.sees(query, positions[j])) continue;
      double score = 0;
      for (size_t i = 0; i < d; ++i) score += q[h * d + i] * keys[j][kv * d + i];
      score *= rule.scale;
      if (rule.softcap != 0) score = rule.softcap * std::tanh(score / rule.softcap);
      if (!rule.slopes.empty()) score -= rule.slopes[h] * std::fabs(static_cast<double>(query - positions[j]));
      scores[j] = score;
      largest = std::max(largest, score);
      any = true;
    }
    if (!any) continue;
    double sum = rule.sinks.empty() ? 0 : std::exp(rule.sinks[h] - largest);
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (size_t j = 0; j < keys.size(); ++j) {
      for (size_t i = 0; i < dv; ++i) out[h * dv + i] += scores[j] / sum * values[j][kv * dv + i];
    }
  }
  return out;
}

}  // namespace moonlit::reference
