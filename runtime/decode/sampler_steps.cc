// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/sampler_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

}  // namespace

Status Fill(std::span<const float> logits, Candidates& candidates) {
  candidates.tokens.clear();
  candidates.sorted = false;
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

void Penalise(std::span<const int32_t> recent, float penalty, Candidates& candidates) {
  if (penalty == 1.0f || recent.empty()) return;
  std::vector<int32_t> ids(recent.begin(), recent.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (Candidate& c : candidates.tokens) {
    if (!std::binary_search(ids.begin(), ids.end(), c.id)) continue;
    // Clamped: an overflow to inf would make the token certain or impossible.
    const float penalised = c.logit > 0 ? c.logit / penalty : c.logit * penalty;
    c.logit = std::clamp(penalised, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
  }
  candidates.sorted = false;
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
  std::vector<Candidate>& tokens = candidates.tokens;
  const double largest = double{tokens.front().logit};
  double total = 0;
  for (const Candidate& c : tokens) total += std::exp(double{c.logit} - largest);
  double sum = 0;
  size_t keep = 0;
  while (keep < tokens.size()) {
    sum += std::exp(double{tokens[keep].logit} - largest);
    ++keep;
    if (sum >= p * total) break;
  }
  tokens.resize(keep);
}

void KeepMinP(double p, Candidates& candidates) {
  if (p <= 0) return;
  // Compared as logits: log(p * p_max) = log p + logit_max.
  const double least = double{LargestLogit(candidates)} + std::log(p);
  std::erase_if(candidates.tokens, [&](const Candidate& c) { return double{c.logit} < least; });
}

int32_t MostLikely(const Candidates& candidates) {
  return std::min_element(candidates.tokens.begin(), candidates.tokens.end(), Before)->id;
}

int32_t Draw(double temperature, double uniform, const Candidates& candidates) {
  const double largest = double{LargestLogit(candidates)};
  // The difference is taken first: it is at most 0, so no temperature makes it overflow upwards, and the largest has
  // weight 1.
  const auto weight = [&](const Candidate& c) { return std::exp((double{c.logit} - largest) / temperature); };
  double total = 0;
  for (const Candidate& c : candidates.tokens) total += weight(c);
  double sum = 0;
  for (const Candidate& c : candidates.tokens) {
    sum += weight(c);
    if (sum > uniform * total) return c.id;
  }
  return candidates.tokens.back().id;  // not reached: at the end sum is total, the same additions in the same order
}

}  // namespace moonlit
