// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/sampler_penalties.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace moonlit {
namespace {

// A double that fits, as a float.
float Clamped(double logit) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(logit, -kMost, kMost));
}

// Each token once, ascending, and how often it occurs.
std::vector<std::pair<int32_t, size_t>> CountTokens(std::span<const int32_t> recent) {
  std::vector<int32_t> ids(recent.begin(), recent.end());
  std::sort(ids.begin(), ids.end());
  std::vector<std::pair<int32_t, size_t>> counts;
  for (const int32_t id : ids) {
    if (counts.empty() || counts.back().first != id) counts.emplace_back(id, 0);
    ++counts.back().second;
  }
  return counts;
}

// 0: the token does not occur.
size_t CountOf(int32_t id, const std::vector<std::pair<int32_t, size_t>>& counts) {
  const auto at =
      std::lower_bound(counts.begin(), counts.end(), id, [](const auto& a, int32_t b) { return a.first < b; });
  return at != counts.end() && at->first == id ? at->second : 0;
}

// By multiplications alone, which round alike everywhere.
double Power(double base, size_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power *= base;
    base *= base;
  }
  return power;
}

// lengths[k]: how many tokens before the end and before the place k tokens earlier are alike (the "Z function" of the text read backwards,
// Gusfield 1997), in linear time.
std::vector<size_t> CommonSuffixes(std::span<const int32_t> text) {
  const size_t n = text.size();
  const auto at = [&](size_t i) { return text[n - 1 - i]; };
  std::vector<size_t> lengths(n, 0);
  size_t left = 0, right = 0;  // [left, right) is the match found so far that reaches furthest
  for (size_t k = 1; k < n; ++k) {
    size_t length = k < right ? std::min(right - k, lengths[k - left]) : 0;
    while (k + length < n && at(length) == at(k + length)) ++length;
    lengths[k] = length;
    if (k + length > right) {
      left = k;
      right = k + length;
    }
  }
  return lengths;
}

}  // namespace

Status AddBiases(std::span<const LogitBias> by_id, Candidates& candidates) {
  if (by_id.empty()) return Status();
  const auto biases_of = [&](int32_t id) {
    const auto first =
        std::lower_bound(by_id.begin(), by_id.end(), id, [](const LogitBias& a, int32_t b) { return a.id < b; });
    auto last = first;
    double sum = 0;
    for (; last != by_id.end() && last->id == id; ++last) sum += double{last->bias};
    return std::make_pair(last != first, sum);
  };
  const auto forbidden = [&](const Candidate& c) {
    const auto [any, sum] = biases_of(c.id);
    return any && std::isinf(sum);
  };
  if (std::all_of(candidates.tokens.begin(), candidates.tokens.end(), forbidden))
    return Status(Code::kInvalidArgument, "the biases forbid every token that is left");
  std::erase_if(candidates.tokens, forbidden);
  for (Candidate& c : candidates.tokens) {
    const auto [any, sum] = biases_of(c.id);
    if (any) c.logit = Clamped(double{c.logit} + sum * candidates.temperature);
  }
  candidates.sorted = false;
  return Status();
}

void Penalise(std::span<const int32_t> recent, float penalty, Candidates& candidates) {
  if (penalty == 1.0f || recent.empty()) return;
  const auto counts = CountTokens(recent);
  for (Candidate& c : candidates.tokens) {
    if (CountOf(c.id, counts) == 0) continue;
    const float penalised = c.logit > 0 ? c.logit / penalty : c.logit * penalty;
    c.logit = std::clamp(penalised, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
  }
  candidates.sorted = false;
}

void PenaliseFrequency(std::span<const int32_t> recent, double frequency, double presence, Candidates& candidates) {
  if ((frequency == 0 && presence == 0) || recent.empty()) return;
  const auto counts = CountTokens(recent);
  for (Candidate& c : candidates.tokens) {
    const size_t count = CountOf(c.id, counts);
    if (count == 0) continue;
    const double penalty = static_cast<double>(count) * frequency + presence;
    c.logit = Clamped(double{c.logit} - penalty * candidates.temperature);
  }
  candidates.sorted = false;
}

void PenaliseRepetition(std::span<const int32_t> recent, const DryPenalty& dry,
                        const std::function<bool(int32_t)>& exempt, Candidates& candidates) {
  const size_t n = recent.size();
  if (dry.multiplier == 0 || n < 2 || dry.most_length < dry.allowed_length) return;
  const std::vector<size_t> lengths = CommonSuffixes(recent);
  std::unordered_map<int32_t, size_t> longest;
  for (size_t k = 1; k < n; ++k) {
    const size_t length = std::min(lengths[k], dry.most_length);
    if (length < dry.allowed_length) continue;
    size_t& known = longest[recent[n - k]];  // what came next, k tokens earlier
    known = std::max(known, length);
  }
  if (longest.empty()) return;
  for (Candidate& c : candidates.tokens) {
    const auto found = longest.find(c.id);
    if (found == longest.end() || exempt(c.id)) continue;
    const double penalty = dry.multiplier * Power(dry.base, found->second - dry.allowed_length);
    c.logit = Clamped(double{c.logit} - penalty * candidates.temperature);
  }
  candidates.sorted = false;
}

size_t TokensSinceBreaker(std::span<const int32_t> recent, std::span<const std::string> breakers,
                          const std::function<std::string_view(int32_t)>& bytes) {
  if (breakers.empty()) return recent.size();
  std::string text;
  std::vector<size_t> ends;
  for (const int32_t id : recent) {
    text += bytes(id);
    ends.push_back(text.size());
  }
  size_t behind = 0;  // the last place behind a breaker
  for (const std::string& breaker : breakers) {
    const size_t at = text.rfind(breaker);
    if (at != std::string::npos) behind = std::max(behind, at + breaker.size());
  }
  if (behind == 0) return recent.size();
  const auto last = std::lower_bound(ends.begin(), ends.end(), behind);
  return static_cast<size_t>(ends.end() - last) - 1;
}

}  // namespace moonlit
