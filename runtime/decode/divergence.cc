// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/divergence.h"

#include <algorithm>
#include <cmath>

#include "runtime/decode/logsumexp.h"

namespace moonlit {
namespace {

// Log-probabilities at and below this are what the file holds for "small": they carry no weight.
constexpr float kNegligible = -16.0f;

size_t Top(std::span<const float> row) {
  return static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

// The value below which `share` of the sorted ones lie, between neighbours in proportion.
double Percentile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(place);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(low);
  return (1 - part) * sorted[low] + part * sorted[high];
}

}  // namespace

void Divergence::Add(std::span<const float> logits, std::span<const float> base, int32_t next) {
  const double total = LogSumExp(logits);
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (base[i] > kNegligible) sum += std::exp(double{base[i]}) * (double{base[i]} - (double{logits[i]} - total));
  }
  values_.push_back(sum);
  same_top_ += Top(logits) == Top(base) ? 1 : 0;
  const auto token = static_cast<size_t>(next);
  base_surprise_ -= double{base[token]};
  const double difference = std::exp(double{logits[token]} - total) - std::exp(double{base[token]});
  squares_ += difference * difference;
}

DivergenceResult Divergence::Result() const {
  DivergenceResult result;
  result.positions = values_.size();
  if (values_.empty()) return result;
  const auto n = static_cast<double>(values_.size());
  double sum = 0, squares = 0;
  for (double value : values_) {
    sum += value;
    squares += value * value;
  }
  result.mean = sum / n;
  const double variance = squares / n - result.mean * result.mean;
  result.standard_error = values_.size() > 1 && variance > 0 ? std::sqrt(variance / (n - 1)) : 0;
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  result.median = Percentile(sorted, 0.5);
  result.percentile_99 = Percentile(sorted, 0.99);
  result.maximum = sorted.back();
  result.same_top = static_cast<double>(same_top_) / n;
  result.base_perplexity = std::exp(base_surprise_ / n);
  result.probability_rms = std::sqrt(squares_ / n);
  return result;
}

}  // namespace moonlit
