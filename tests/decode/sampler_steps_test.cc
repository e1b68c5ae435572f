// SPDX-License-Identifier: Apache-2.0
// Each step against closed forms, and against a reference that is written here by the paper: probabilities of all tokens, in
// long double.
#include "runtime/decode/sampler_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/decode/random.h"
#include "tests/decode/candidates.h"

namespace moonlit {
namespace {

using testing::ElementsAre;

Candidates Make(const std::vector<float>& logits, double temperature = 1) {
  Candidates candidates;
  const Status status = Fill(logits, candidates);
  EXPECT_TRUE(status.ok()) << status.ToString();
  candidates.temperature = temperature;
  return candidates;
}

std::vector<int32_t> Sorted(std::vector<int32_t> ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

// Multiples of 1/16 in [-8, 8), so that some are equal.
std::vector<float> RandomLogits(Random& random, size_t count) {
  std::vector<float> logits;
  for (size_t i = 0; i < count; ++i)
    logits.push_back(static_cast<float>(static_cast<int>(random.Next() >> 56) - 128) / 16.0f);
  return logits;
}

struct Token {
  int32_t id;
  long double p;
};

std::vector<Token> Probabilities(const std::vector<float>& logits, double temperature) {
  std::vector<Token> tokens;
  const long double largest = *std::max_element(logits.begin(), logits.end());
  long double total = 0;
  for (float l : logits) total += std::exp((static_cast<long double>(l) - largest) / temperature);
  for (size_t i = 0; i < logits.size(); ++i)
    tokens.push_back(
        {static_cast<int32_t>(i), std::exp((static_cast<long double>(logits[i]) - largest) / temperature) / total});
  return tokens;
}

void SortByProbability(std::vector<Token>& tokens) {
  std::stable_sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) { return a.p > b.p; });
}

long double EntropyOf(const std::vector<Token>& tokens) {
  long double entropy = 0;
  for (const Token& t : tokens) entropy -= t.p * std::log(t.p);
  return entropy;
}

std::vector<int32_t> ReferenceTypical(std::vector<Token> tokens, double p) {
  const long double entropy = EntropyOf(tokens);
  const auto distance = [&](const Token& t) { return std::abs(-std::log(t.p) - entropy); };
  std::stable_sort(tokens.begin(), tokens.end(),
                   [&](const Token& a, const Token& b) { return distance(a) < distance(b); });
  std::vector<int32_t> kept;
  long double sum = 0;
  for (const Token& t : tokens) {
    kept.push_back(t.id);
    sum += t.p;
    if (sum >= p) break;
  }
  return Sorted(kept);
}

std::vector<int32_t> ReferenceTopP(std::vector<Token> tokens, double p) {
  SortByProbability(tokens);
  std::vector<int32_t> kept;
  long double sum = 0;
  for (const Token& t : tokens) {
    kept.push_back(t.id);
    sum += t.p;
    if (sum >= p) break;
  }
  return kept;
}

std::vector<int32_t> ReferenceXtc(std::vector<Token> tokens, double threshold) {
  SortByProbability(tokens);
  const auto likely = static_cast<size_t>(
      std::count_if(tokens.begin(), tokens.end(), [&](const Token& t) { return t.p >= threshold; }));
  std::vector<int32_t> kept;
  for (size_t i = likely < 2 ? 0 : likely - 1; i < tokens.size(); ++i) kept.push_back(tokens[i].id);
  return kept;
}

std::vector<int32_t> ReferenceTopNSigma(const std::vector<float>& logits, double n) {
  long double mean = 0, variance = 0;
  for (float l : logits) mean += static_cast<long double>(l) / static_cast<long double>(logits.size());
  for (float l : logits) variance += (l - mean) * (l - mean) / static_cast<long double>(logits.size());
  const long double least = *std::max_element(logits.begin(), logits.end()) - n * std::sqrt(variance);
  std::vector<int32_t> kept;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= least) kept.push_back(static_cast<int32_t>(i));
  }
  return kept;
}

TEST(Cuts, AreTheReferences) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> logits = RandomLogits(random, 1 + random.Next() % 200);
    const double temperature = 0.25 + random.NextUniform() * 3, p = random.NextUniform();
    const std::vector<Token> tokens = Probabilities(logits, temperature);
    Candidates typical = Make(logits, temperature), top_p = typical, xtc = typical, sigma = typical;
    KeepTypical(p, typical);
    EXPECT_EQ(Sorted(IdsOf(typical)), ReferenceTypical(tokens, p)) << round;
    KeepTopP(p, top_p);
    EXPECT_EQ(IdsOf(top_p), ReferenceTopP(tokens, p)) << round;
    RemoveTopChoices(p / 8, xtc);
    EXPECT_EQ(IdsOf(xtc), ReferenceXtc(tokens, p / 8)) << round;
    KeepTopNSigma(3 * p, sigma);
    EXPECT_EQ(Sorted(IdsOf(sigma)), ReferenceTopNSigma(logits, 3 * p)) << round;
  }
}

// 1, 2, 3 and 3 bits of surprise, 1.75 on average: distances 0.75, 0.25, 1.25, 1.25.
TEST(KeepTypical, TakesTheNearestToTheEntropyFirst) {
  const std::vector<float> logits = Logs({0.5, 0.25, 0.125, 0.125});
  for (const auto& [p, ids] : std::vector<std::pair<double, std::vector<int32_t>>>{{0.0, {1}},
                                                                                   {0.24, {1}},
                                                                                   {0.26, {0, 1}},
                                                                                   {0.74, {0, 1}},
                                                                                   {0.76, {0, 1, 2}},
                                                                                   {0.9, {0, 1, 2, 3}},
                                                                                   {1.0, {0, 1, 2, 3}}}) {
    Candidates candidates = Make(logits);
    KeepTypical(p, candidates);
    EXPECT_EQ(IdsOf(candidates), ids) << p;
  }
}

TEST(KeepTypical, EqualTokensAreTakenById) {
  Candidates candidates = Make({1, 1, 1, 1});
  KeepTypical(0.5, candidates);
  EXPECT_THAT(IdsOf(candidates), ElementsAre(0, 1));
}

// What has no probability left has no part in the entropy.
TEST(KeepTypical, FarTokensAreNoNumbersOfAnyKind) {
  Candidates candidates = Make({3e38f, -3e38f, 3e38f});
  KeepTypical(0.5, candidates);
  EXPECT_THAT(IdsOf(candidates), ElementsAre(0));
}

TEST(RemoveTopChoices, LeavesTheLeastOfThem) {
  const std::vector<float> logits = Logs({0.1, 0.4, 0.2, 0.3});
  for (const auto& [threshold, ids] : std::vector<std::pair<double, std::vector<int32_t>>>{{0.45, {1, 3, 2, 0}},
                                                                                           {0.35, {1, 3, 2, 0}},
                                                                                           {0.25, {3, 2, 0}},
                                                                                           {0.15, {2, 0}},
                                                                                           {0.05, {0}},
                                                                                           {0.0, {0}},
                                                                                           {1.0, {1, 3, 2, 0}}}) {
    Candidates candidates = Make(logits);
    RemoveTopChoices(threshold, candidates);
    EXPECT_EQ(IdsOf(candidates), ids) << threshold;
  }
}

// Mean 1, standard deviation sqrt(3).
TEST(KeepTopNSigma, MeasuresFromTheLargest) {
  for (const double temperature : {0.1, 1.0, 5.0}) {
    for (const auto& [n, count] :
         std::vector<std::pair<double, size_t>>{{0, 4}, {1e-9, 1}, {2.3, 1}, {2.31, 4}, {100, 4}}) {
      Candidates candidates = Make({0, 0, 0, 4}, temperature);
      KeepTopNSigma(n, candidates);
      EXPECT_EQ(candidates.tokens.size(), count) << n;
    }
  }
  Candidates equal = Make({-2, -2, -2});
  KeepTopNSigma(1, equal);
  EXPECT_EQ(equal.tokens.size(), 3u);
}

// By powers of two logits can be divided without rounding: then every step leaves what it leaves of the quotients.
TEST(Scale, IsADivisionOfTheLogits) {
  Random random(2);
  for (int round = 0; round < 50; ++round) {
    const std::vector<float> logits = RandomLogits(random, 40);
    std::vector<float> quarter;
    for (float l : logits) quarter.push_back(l / 4);
    const double p = random.NextUniform();
    const auto expect_same = [&](auto step) {
      Candidates scaled = Make(logits), divided = Make(quarter);
      Scale(8, scaled);
      Scale(0.5, scaled);
      step(scaled);
      step(divided);
      EXPECT_EQ(IdsOf(scaled), IdsOf(divided)) << round;
    };
    expect_same([&](Candidates& c) { KeepTopP(p, c); });
    expect_same([&](Candidates& c) { KeepMinP(p, c); });
    expect_same([&](Candidates& c) { KeepTypical(p, c); });
    expect_same([&](Candidates& c) { RemoveTopChoices(p / 8, c); });
    expect_same([&](Candidates& c) { KeepUpToSurprise(8 * p, c); });
    expect_same([&](Candidates& c) { KeepOnly(Draw(c.temperature, p, c), c); });
  }
}

TEST(Scale, NothingIsTheMostLikelyToken) {
  Candidates candidates = Make({1, 7, 7, 3});
  Scale(0, candidates);
  EXPECT_THAT(IdsOf(candidates), ElementsAre(1));
  candidates = Make({1, 7, 7, 3});
  Scale(1e-200, candidates);
  EXPECT_EQ(candidates.tokens.size(), 4u);
  Scale(1e-200, candidates);
  EXPECT_THAT(IdsOf(candidates), ElementsAre(1));
}

TEST(DynamicTemperature, GoesByTheEntropy) {
  EXPECT_DOUBLE_EQ(DynamicTemperature(0.5, 2.5, 1, Make({3, 3, 3, 3, 3})), 2.5);
  EXPECT_DOUBLE_EQ(DynamicTemperature(0.5, 2.5, 1, Make({0, -2000, -2000})), 0.5);
  EXPECT_DOUBLE_EQ(DynamicTemperature(0.5, 2.5, 1, Make({1})), 2.5);
  // 1.5 bits of log2(3).
  const double share = 1.5 / std::log2(3.0);
  const Candidates three = Make(Logs({0.25, 0.5, 0.25}));
  EXPECT_NEAR(DynamicTemperature(0, 1, 1, three), share, 1e-7);
  EXPECT_NEAR(DynamicTemperature(1, 3, 2.5, three), 1 + 2 * std::pow(share, 2.5), 1e-7);
  EXPECT_DOUBLE_EQ(DynamicTemperature(1, 3, 0, three), 3);
  Random random(3);
  for (int round = 0; round < 100; ++round) {
    const std::vector<float> logits = RandomLogits(random, 2 + random.Next() % 100);
    const double temperature = 0.25 + random.NextUniform(), exponent = 3 * random.NextUniform();
    const long double share_of_most =
        EntropyOf(Probabilities(logits, temperature)) / std::log(static_cast<long double>(logits.size()));
    EXPECT_NEAR(DynamicTemperature(0.1, 1.9, exponent, Make(logits, temperature)),
                static_cast<double>(0.1L + 1.8L * std::pow(share_of_most, static_cast<long double>(exponent))), 1e-9);
  }
}

TEST(Mirostat, CutsBySurprise) {
  const std::vector<float> logits = Logs({0.125, 0.5, 0.25, 0.125});
  for (const auto& [mu, ids] : std::vector<std::pair<double, std::vector<int32_t>>>{
           {-100, {1}}, {0.5, {1}}, {1.5, {1}}, {2.1, {1, 2}}, {2.9, {1, 2}}, {3.1, {1, 2, 0, 3}}}) {
    Candidates candidates = Make(logits);
    KeepUpToSurprise(mu, candidates);
    EXPECT_EQ(IdsOf(candidates), ids) << mu;
  }
  EXPECT_NEAR(Surprise(1, Make(logits)), 1, 1e-6);
  EXPECT_NEAR(Surprise(2, Make(logits)), 2, 1e-6);
  EXPECT_NEAR(Surprise(3, Make(logits)), 3, 1e-6);
  EXPECT_NEAR(Surprise(0, Make({7})), 0, 1e-12);
}

// Of probabilities by Zipf's law the exponent is found, and k^s = (s - 1) 2^mu / (1 - N^(1 - s)).
TEST(Mirostat, FindsTheExponentOfZipf) {
  const auto zipf = [](double s) {
    std::vector<float> logits;
    for (int i = 1; i <= 1000; ++i) logits.push_back(static_cast<float>(-s * std::log(i)));
    return Make(logits);
  };
  for (const auto& [s, mu, k] : std::vector<std::tuple<double, double, size_t>>{
           {2, 6, 8}, {2, 4, 4}, {2, -20, 1}, {2, 40, 1000}, {1, 10, 148}, {1, 5, 4}}) {
    Candidates candidates = zipf(s);
    EXPECT_EQ(ZipfTopK(mu, 1000, candidates), k) << s << " " << mu;
  }
  Candidates one = Make({4}), equal = Make({4, 4, 4}), far = Make({3e38f, -3e38f});
  EXPECT_EQ(ZipfTopK(3, 1000, one), 1u);
  EXPECT_EQ(ZipfTopK(3, 1000, equal), 3u);
  EXPECT_EQ(ZipfTopK(3, 1, far), 1u);
}

// Whatever the numbers, something is left, and it is some of what was there.
TEST(Cuts, NeverEmptyTheList) {
  Random random(4);
  const double numbers[] = {0, 1e-30, 1e-9, 0.3, 0.5, 1, 2, 100, 1e9};
  for (int round = 0; round < 300; ++round) {
    std::vector<float> logits = RandomLogits(random, 1 + random.Next() % 50);
    for (float& l : logits) {
      if (random.Next() % 8 == 0) l *= 1e37f;
    }
    Candidates candidates = Make(logits, numbers[1 + random.Next() % 8]);
    for (int step = 0; step < 6; ++step) {
      const std::vector<int32_t> before = Sorted(IdsOf(candidates));
      const double x = numbers[random.Next() % std::size(numbers)];
      switch (random.Next() % 9) {
        case 0:
          KeepTopK(static_cast<size_t>(x), candidates);
          break;
        case 1:
          KeepTopP(std::min(x, 1.0), candidates);
          break;
        case 2:
          KeepMinP(std::min(x, 1.0), candidates);
          break;
        case 3:
          KeepTypical(std::min(x, 1.0), candidates);
          break;
        case 4:
          RemoveTopChoices(std::min(x, 1.0), candidates);
          break;
        case 5:
          KeepTopNSigma(x, candidates);
          break;
        case 6:
          Scale(DynamicTemperature(0, x, 1, candidates), candidates);
          break;
        case 7:
          KeepUpToSurprise(x, candidates);
          break;
        default:
          KeepTopK(ZipfTopK(x, 1000, candidates), candidates);
      }
      const std::vector<int32_t> after = Sorted(IdsOf(candidates));
      ASSERT_FALSE(after.empty()) << round;
      ASSERT_TRUE(std::includes(before.begin(), before.end(), after.begin(), after.end())) << round;
      if (candidates.sorted) {
        ASSERT_EQ(candidates.tokens.front().id, MostLikely(candidates)) << round;
      }
    }
    const int32_t id = Draw(candidates.temperature, random.NextUniform(), candidates);
    ASSERT_TRUE(std::isfinite(Surprise(id, candidates))) << round;
  }
}

}  // namespace
}  // namespace moonlit
