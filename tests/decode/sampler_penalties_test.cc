// SPDX-License-Identifier: Apache-2.0
// Biases and penalties against closed forms, and the repetition penalty against a search by definition.
#include "runtime/decode/sampler_penalties.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "runtime/decode/random.h"

namespace moonlit {
namespace {

using testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();

Candidates Make(const std::vector<float>& logits) {
  Candidates candidates;
  const Status status = Fill(logits, candidates);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return candidates;
}

std::vector<float> LogitsOf(const Candidates& candidates) {
  std::vector<float> logits;
  for (const Candidate& c : candidates.tokens) logits.push_back(c.logit);
  return logits;
}

TEST(AddBiases, AddUpForbidAndStayFinite) {
  Candidates candidates = Make({1, 2, 3, 3e38f, -3e38f});
  const std::vector<LogitBias> biases = {{0, 0.5f}, {0, 0.25f}, {1, -kInf}, {1, 5}, {3, 3e38f}, {4, -3e38f}};
  EXPECT_TRUE(AddBiases(biases, candidates).ok());
  constexpr float kMost = std::numeric_limits<float>::max();
  EXPECT_THAT(LogitsOf(candidates), ElementsAre(1.75f, 3.0f, kMost, -kMost));
  EXPECT_EQ(candidates.tokens[1].id, 2);
}

TEST(AddBiases, ForbiddingAllIsAFaultAndTakesNothingOut) {
  Candidates candidates = Make({1, 2});
  const Status status = AddBiases(std::vector<LogitBias>{{0, -kInf}, {1, -kInf}}, candidates);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(LogitsOf(candidates), ElementsAre(1.0f, 2.0f));
}

TEST(AddBiases, ActOnTheLogitsOverTheTemperature) {
  Candidates candidates = Make({4, 2});
  Scale(4, candidates);
  EXPECT_TRUE(AddBiases(std::vector<LogitBias>{{1, 1.0f}}, candidates).ok());
  EXPECT_EQ(candidates.tokens[1].logit / 4, 1.5f);
}

TEST(PenaliseFrequency, CountsOccurrencesAndPresence) {
  const std::vector<int32_t> recent = {0, 2, 0, 0, 99, -1};
  Candidates candidates = Make({5, 5, 5, -5});
  PenaliseFrequency(recent, 0.5, 0, candidates);
  EXPECT_THAT(LogitsOf(candidates), ElementsAre(3.5f, 5.0f, 4.5f, -5.0f));
  candidates = Make({5, 5, 5, -5});
  PenaliseFrequency(recent, 0, 2, candidates);
  EXPECT_THAT(LogitsOf(candidates), ElementsAre(3.0f, 5.0f, 3.0f, -5.0f));
  candidates = Make({5, 5, 5, -5});
  PenaliseFrequency(recent, -0.25, 1, candidates);
  EXPECT_THAT(LogitsOf(candidates), ElementsAre(4.75f, 5.0f, 4.25f, -5.0f));
  Scale(2, candidates);
  PenaliseFrequency(recent, 0, 1, candidates);
  EXPECT_THAT(LogitsOf(candidates), ElementsAre(2.75f, 5.0f, 2.25f, -5.0f));
  candidates = Make({-3.4e38f, 3.4e38f});
  PenaliseFrequency(std::vector<int32_t>(1000, 0), 1e37, 0, candidates);
  PenaliseFrequency(std::vector<int32_t>(1000, 1), -1e37, 0, candidates);
  for (const float logit : LogitsOf(candidates)) EXPECT_TRUE(std::isfinite(logit));
}

// For every place whose token could come again: how many tokens before it are those at the end.
std::map<int32_t, size_t> LongestRepetitions(const std::vector<int32_t>& text, size_t most) {
  std::map<int32_t, size_t> longest;
  for (size_t place = 1; place < text.size(); ++place) {
    size_t length = 0;
    while (length < place && length < most && text[place - 1 - length] == text[text.size() - 1 - length]) ++length;
    auto [known, added] = longest.emplace(text[place], length);
    if (!added) known->second = std::max(known->second, length);
  }
  return longest;
}

TEST(PenaliseRepetition, IsTheSearchByDefinition) {
  Random random(5);
  size_t penalised = 0;
  for (int round = 0; round < 300; ++round) {
    const size_t n_vocab = 2 + random.Next() % 4, length = random.Next() % 60;
    std::vector<int32_t> text;
    for (size_t i = 0; i < length; ++i) text.push_back(static_cast<int32_t>(random.Next() % n_vocab));
    const DryPenalty dry{0.5 + random.NextUniform(), 1 + random.NextUniform(), static_cast<size_t>(random.Next() % 4),
                         random.Next() % 2 == 0 ? SIZE_MAX : static_cast<size_t>(random.Next() % 6)};
    Candidates candidates = Make(std::vector<float>(n_vocab, 1.0f));
    PenaliseRepetition(
        text, dry, [](int32_t id) { return id == 1; }, candidates);
    const auto longest = LongestRepetitions(text, dry.most_length);
    for (const Candidate& c : candidates.tokens) {
      const auto found = longest.find(c.id);
      double expected = 1;
      if (found != longest.end() && found->second >= dry.allowed_length && c.id != 1) {
        expected -= dry.multiplier * std::pow(dry.base, static_cast<double>(found->second - dry.allowed_length));
        ++penalised;
      }
      ASSERT_NEAR(static_cast<double>(c.logit), expected, 1e-6 * std::abs(expected)) << round;
    }
  }
  EXPECT_GT(penalised, 300u);
}

// "a b c . a b" would go on with c, after two tokens that were there already.
TEST(PenaliseRepetition, GrowsWithTheLength) {
  const auto none = [](int32_t) { return false; };
  Candidates candidates = Make({0, 0, 0, 0, 0});
  PenaliseRepetition(std::vector<int32_t>{0, 1, 2, 4, 0, 1}, {.multiplier = 0.8}, none, candidates);
  EXPECT_THAT(LogitsOf(candidates), ElementsAre(0, 0, -0.8f, 0, 0));
  candidates = Make({0, 0, 0, 0, 0});
  PenaliseRepetition(std::vector<int32_t>{3, 0, 1, 2, 4, 3, 0, 1}, {.multiplier = 0.5, .base = 2}, none, candidates);
  EXPECT_THAT(LogitsOf(candidates), ElementsAre(0, 0, -1, 0, 0));
  // A run goes on by itself; its power is no number, its logit still is.
  candidates = Make({0, 0});
  PenaliseRepetition(std::vector<int32_t>(5000, 0), {.multiplier = 100, .base = 100}, none, candidates);
  EXPECT_THAT(LogitsOf(candidates), ElementsAre(-std::numeric_limits<float>::max(), 0));
  candidates = Make({0, 0});
  PenaliseRepetition(std::vector<int32_t>(5000, 0), {.multiplier = 1, .base = 2, .most_length = 1}, none, candidates);
  EXPECT_THAT(LogitsOf(candidates), ElementsAre(0, 0));
}

// Tokens are letters of this text; 100 stands for "xy\n", 101 for "y" and 102 for nothing.
std::string_view Bytes(int32_t id) {
  static const std::string letters = "abcdefghijklmnopqrstuvwxyz:\n";
  if (id == 100) return "xy\n";
  if (id == 101) return "y";
  if (id < 0 || static_cast<size_t>(id) >= letters.size()) return "";
  return std::string_view(letters).substr(static_cast<size_t>(id), 1);
}

TEST(TokensSinceBreaker, FindsBreakersAcrossTokens) {
  const auto since = [](const std::vector<int32_t>& ids, const std::vector<std::string>& breakers) {
    return TokensSinceBreaker(ids, breakers, Bytes);
  };
  EXPECT_EQ(since({0, 1, 2}, {}), 3u);
  EXPECT_EQ(since({0, 1, 2}, {"z"}), 3u);
  EXPECT_EQ(since({}, {"z"}), 0u);
  EXPECT_EQ(since({0, 1, 2}, {"a"}), 2u);
  EXPECT_EQ(since({0, 1, 2}, {"a", "b"}), 1u);
  EXPECT_EQ(since({0, 1, 2}, {"bc", "a"}), 0u);
  EXPECT_EQ(since({0, 1, 2}, {"abc"}), 0u);
  EXPECT_EQ(since({0, 1, 2, 0}, {"abc"}), 1u);
  // The breaker ends inside a token, or spans one without text.
  EXPECT_EQ(since({0, 100, 1}, {"xy"}), 1u);
  EXPECT_EQ(since({0, 100, 1}, {"ax"}), 1u);
  EXPECT_EQ(since({0, 102, 1, 102, -1}, {"ab"}), 2u);
  EXPECT_EQ(since({23, 101, 0, 0}, {"xy"}), 2u);
}

}  // namespace
}  // namespace moonlit
