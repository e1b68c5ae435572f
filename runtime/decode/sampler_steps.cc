// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/sampler_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace moonlit {
namespace {

bool Before(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

float LargestLogit(const Candidates& candidates) {
  if (candidates.sorted) return candidates.tokens.front().logit;
  float largest = candidates.tokens.front().logit;
  for (const Candidate& c : candidates.tokens) largest = std::max(largest, c.logit);
  return largest;
}

void Sort(Candidates& candidates) {
  if (!candidates.sorted) std::sort(candidates.tokens.begin(), candidates.tokens.end(), Before);
  candidates.sorted = true;
}

// Weights: exp of the logits over the temperature, the largest being 1. The difference is taken first: it is at most 0, so no
// temperature makes it overflow upwards.
class Softmax {
 public:
  explicit Softmax(const Candidates& candidates)
      : Softmax(candidates.temperature, double{LargestLogit(candidates)}, candidates) {}
  Softmax(double temperature, double largest, const Candidates& candidates)
      : temperature_(temperature), largest_(largest) {
    for (const Candidate& c : candidates.tokens) total_ += Weight(c);
    log_total_ = std::log(total_);
  }
  double Exponent(const Candidate& c) const { return (double{c.logit} - largest_) / temperature_; }
  double Weight(const Candidate& c) const { return std::exp(Exponent(c)); }
  double total() const { return total_; }
  // -log(probability), which stays finite where the probability is no longer a number above 0.
  double SurpriseOf(const Candidate& c) const { return log_total_ - Exponent(c); }
  // The mean of the surprises.
  double Entropy(const Candidates& candidates) const {
    double sum = 0;
    for (const Candidate& c : candidates.tokens) {
      const double weight = Weight(c);
      if (weight > 0) sum += weight * SurpriseOf(c);
    }
    return sum / total_;
  }

 private:
  double temperature_, largest_;
  double total_ = 0, log_total_ = 0;
};

}  // namespace

Status Fill(std::span<const float> logits, Candidates& candidates) {
  candidates.tokens.clear();
  candidates.sorted = false;
  candidates.temperature = 1;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    if (!(logit <= std::numeric_limits<float>::max())) {
      return Errorf(Code::kInternal,
                    "sampler: the logit of token %zu is %s; the model's weights or its cache are damaged", i,
                    std::isnan(logit) ? "NaN" : "+inf");
    }
    if (logit >= std::numeric_limits<float>::lowest()) candidates.tokens.push_back({static_cast<int32_t>(i), logit});
  }
  if (candidates.tokens.empty())
    return Status(Code::kInternal, "sampler: every token's logit is -inf, so none can be chosen");
  return Status();
}

void KeepTopK(size_t k, Candidates& candidates) {
  std::vector<Candidate>& tokens = candidates.tokens;
  if (k == 0 || k >= tokens.size()) return;
  if (!candidates.sorted) {
    std::partial_sort(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(k), tokens.end(), Before);
    candidates.sorted = true;
  }
  tokens.resize(k);
}

void KeepTopP(double p, Candidates& candidates) {
  if (p >= 1) return;
  Sort(candidates);
  const std::vector<Candidate>& tokens = candidates.tokens;
  const Softmax softmax(candidates);
  double sum = 0;
  size_t keep = 0;
  while (keep < tokens.size()) {
    sum += softmax.Weight(tokens[keep]);
    ++keep;
    if (sum >= p * softmax.total()) break;
  }
  candidates.tokens.resize(keep);
}

void KeepMinP(double p, Candidates& candidates) {
  if (p <= 0) return;
  // Compared as logits: log(p * p_max) = log p + logit_max, all over the temperature.
  const double least = double{LargestLogit(candidates)} + candidates.temperature * std::log(p);
  std::erase_if(candidates.tokens, [&](const Candidate& c) { return double{c.logit} < least; });
}

void KeepTypical(double p, Candidates& candidates) {
  if (p >= 1) return;
  struct Typical {
    double distance;
    Candidate token;
  };
  const Softmax softmax(candidates);
  const double entropy = softmax.Entropy(candidates);
  std::vector<Typical> order;
  order.reserve(candidates.tokens.size());
  for (const Candidate& c : candidates.tokens) order.push_back({std::abs(softmax.SurpriseOf(c) - entropy), c});
  std::sort(order.begin(), order.end(), [](const Typical& a, const Typical& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.token.id < b.token.id;
  });
  candidates.tokens.clear();
  double sum = 0;
  for (const Typical& typical : order) {
    candidates.tokens.push_back(typical.token);
    sum += softmax.Weight(typical.token);
    if (sum >= p * softmax.total()) break;
  }
  // In an order that does not hang on the distances' last bits.
  candidates.sorted = false;
  Sort(candidates);
}

void RemoveTopChoices(double threshold, Candidates& candidates) {
  Sort(candidates);
  std::vector<Candidate>& tokens = candidates.tokens;
  const Softmax softmax(candidates);
  size_t choices = 0;
  while (choices < tokens.size() && softmax.Weight(tokens[choices]) >= threshold * softmax.total()) ++choices;
  if (choices > 1) tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(choices - 1));
}

void KeepTopNSigma(double n, Candidates& candidates) {
  if (n <= 0) return;
  const double count = static_cast<double>(candidates.tokens.size());
  double sum = 0, squares = 0;
  for (const Candidate& c : candidates.tokens) sum += double{c.logit};
  const double mean = sum / count;
  for (const Candidate& c : candidates.tokens) squares += (double{c.logit} - mean) * (double{c.logit} - mean);
  const double least = double{LargestLogit(candidates)} - n * std::sqrt(squares / count);
  std::erase_if(candidates.tokens, [&](const Candidate& c) { return double{c.logit} < least; });
}

void Scale(double temperature, Candidates& candidates) {
  constexpr double kLeast = 1e-300;  // quotients by it stay numbers
  if (temperature * candidates.temperature < kLeast) {
    KeepOnly(MostLikely(candidates), candidates);
  } else {
    candidates.temperature *= temperature;
  }
}

double DynamicTemperature(double least, double most, double exponent, const Candidates& candidates) {
  if (candidates.tokens.size() < 2) return most;
  const double entropy = Softmax(candidates).Entropy(candidates);
  const double share = entropy / std::log(static_cast<double>(candidates.tokens.size()));
  return least + (most - least) * std::pow(std::clamp(share, 0.0, 1.0), exponent);
}

void KeepUpToSurprise(double mu, Candidates& candidates) {
  Sort(candidates);
  const Softmax softmax(candidates);
  size_t keep = 1;
  while (keep < candidates.tokens.size() && softmax.SurpriseOf(candidates.tokens[keep]) <= mu * std::numbers::ln2)
    ++keep;
  candidates.tokens.resize(keep);
}

// Algorithm 1 of the paper: the exponent s by least squares through the origin, of the differences of log-probabilities over
// t = log((i + 2) / (i + 1)), then k.
size_t ZipfTopK(double mu, size_t n_vocab, Candidates& candidates) {
  Sort(candidates);
  const std::vector<Candidate>& tokens = candidates.tokens;
  double tb = 0, tt = 0;
  for (size_t i = 0; i + 1 < std::min(kZipfTokens, tokens.size()); ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    tb += t * (double{tokens[i].logit} - double{tokens[i + 1].logit}) / candidates.temperature;
    tt += t * t;
  }
  const double most = static_cast<double>(tokens.size());
  if (tt == 0 || tb == 0) return tokens.size();  // one token, or all alike
  const double s = tb / tt, epsilon = s - 1;
  // k^s = epsilon 2^mu / (1 - N^-epsilon), whose limit at epsilon = 0 is 2^mu / log N.
  const double log_n = std::log(static_cast<double>(std::max<size_t>(n_vocab, 2)));
  const double factor = std::abs(epsilon) < 1e-9 ? 1 / log_n : epsilon / -std::expm1(-epsilon * log_n);
  const double k = std::exp((mu * std::numbers::ln2 + std::log(factor)) / s);
  return k >= most ? tokens.size() : k >= 1 ? static_cast<size_t>(k) : 1;  // 1 for what is no number, too
}

double Surprise(int32_t id, const Candidates& candidates) {
  const auto found =
      std::find_if(candidates.tokens.begin(), candidates.tokens.end(), [&](const Candidate& c) { return c.id == id; });
  return Softmax(candidates).SurpriseOf(*found) / std::numbers::ln2;
}

int32_t MostLikely(const Candidates& candidates) {
  return std::min_element(candidates.tokens.begin(), candidates.tokens.end(), Before)->id;
}

void KeepOnly(int32_t id, Candidates& candidates) {
  std::erase_if(candidates.tokens, [&](const Candidate& c) { return c.id != id; });
}

int32_t Draw(double temperature, double uniform, const Candidates& candidates) {
  const Softmax softmax(temperature, double{LargestLogit(candidates)}, candidates);
  double sum = 0;
  for (const Candidate& c : candidates.tokens) {
    sum += softmax.Weight(c);
    if (sum > uniform * softmax.total()) return c.id;
  }
  return candidates.tokens.back().id;  // not reached: at the end sum is the total, the same additions in the same order
}

}  // namespace moonlit
