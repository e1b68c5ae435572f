// SPDX-License-Identifier: Apache-2.0
// How far a model's distributions are from those of another that serves as measure (its unquantized original), position by
// position, with the numbers that llama.cpp's `llama-perplexity --kl-divergence` gives:
//
//   KL(base || model) = sum_i p_base(i) (log p_base(i) - log p(i)), in nats
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moonlit {

struct DivergenceResult {
  size_t positions = 0;
  double mean = 0;            // of KL
  double standard_error = 0;  // of the mean
  double median = 0, percentile_99 = 0, maximum = 0;
  double same_top = 0;         // share of positions where both find the same token most likely
  double base_perplexity = 0;  // of the measure, on the same positions
  double probability_rms = 0;  // root mean square of p(next token) - p_base(next token)
};

// Not thread safe.
class Divergence {
 public:
  // logits: [n]; base: [n] log-probabilities; next: the token that comes.
  void Add(std::span<const float> logits, std::span<const float> base, int32_t next);
  DivergenceResult Result() const;

 private:
  std::vector<double> values_;
  size_t same_top_ = 0;
  double base_surprise_ = 0;
  double squares_ = 0;
};

}  // namespace moonlit
