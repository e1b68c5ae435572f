// SPDX-License-Identifier: Apache-2.0
// One attention layer in double precision, one query and one key at a time, as the papers write it: the judge of masks, biases
// and sinks. It knows no caches, tiles, slots or kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace moonlit::reference {

struct AttentionRule {
  size_t heads, kv_heads;  // query head h reads KV head h / (heads / kv_heads)
  size_t key_dim, value_dim;
  double scale;
  double softcap = 0;               // cap tanh(score / cap) where not 0 (gemma 2)
  std::vector<double> slopes = {};  // [heads] score -= slope |i - j| where not empty (ALiBi)
  std::vector<double> sinks = {};   // [heads] join the softmax without a value where not empty
  std::function<bool(int64_t query, int64_t key)> sees = {};  // by position; empty: everything
};

// [heads * value_dim] of one query [heads * key_dim] at a position, over keys and values at positions of their own; q and keys are
// rotated already. Zeros where nothing is seen.
std::vector<double> Attend(const AttentionRule& rule, const std::vector<double>& q, int64_t query,
                           const std::vector<std::vector<double>>& keys, const std::vector<std::vector<double>>& values,
                           const std::vector<int64_t>& positions);

}  // namespace moonlit::reference
