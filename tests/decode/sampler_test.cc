// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/decode/candidates.h"

namespace moonlit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The authors' test values: SplitMix64 from state 1234567; xoshiro256** after filling the state from 42, computed by a
// separate program from the papers (its first numbers from state {1, 2, 3, 4} being the published 11520, 0, 1509978240,
// 1215971899390074240).
TEST(Random, PublishedNumbers) {
  uint64_t state = 1234567;
  EXPECT_EQ(Random::SplitMix(state), 6457827717110365317u);
  EXPECT_EQ(Random::SplitMix(state), 3203168211198807973u);
  EXPECT_EQ(Random::SplitMix(state), 9817491932198370423u);
  Random random(42);
  EXPECT_EQ(random.Next(), 1546998764402558742u);
  EXPECT_EQ(random.Next(), 6990951692964543102u);
  EXPECT_EQ(random.Next(), 12544586762248559009u);
  EXPECT_EQ(random.Next(), 17057574109182124193u);
}

TEST(Random, UniformIsBelowOne) {
  EXPECT_EQ(Random(42).NextUniform(), static_cast<double>(1546998764402558742u >> 11) / 9007199254740992.0);
  Random random(7);
  for (int i = 0; i < 10000; ++i) {
    const double u = random.NextUniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
  }
}

Candidates Make(const std::vector<float>& logits) {
  Candidates candidates;
  const Status status = Fill(logits, candidates);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return candidates;
}

TEST(Fill, NamesTheTokenThatIsNotANumber) {
  Candidates candidates;
  Status status = Fill(std::vector<float>{0, 1, kNan, kNan}, candidates);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_THAT(status.ToString(), HasSubstr("token 2 is NaN"));
  status = Fill(std::vector<float>{0, kInf}, candidates);
  EXPECT_THAT(status.ToString(), HasSubstr("token 1 is +inf"));
  status = Fill(std::vector<float>{-kInf, -kInf}, candidates);
  EXPECT_THAT(status.ToString(), HasSubstr("-inf"));
  EXPECT_THAT(IdsOf(Make({-kInf, 3, -kInf, -3e38f})), ElementsAre(1, 3));
}

TEST(KeepTopK, KeepsTheFirstAndTheLowerIdAmongEquals) {
  const std::vector<float> logits = {1, 4, 2, 4, 3, 4};
  for (const auto& [k, ids] : std::vector<std::pair<size_t, std::vector<int32_t>>>{
           {1, {1}}, {2, {1, 3}}, {3, {1, 3, 5}}, {5, {1, 3, 5, 4, 2}}}) {
    Candidates candidates = Make(logits);
    KeepTopK(k, candidates);
    EXPECT_EQ(IdsOf(candidates), ids) << k;
    EXPECT_TRUE(candidates.sorted);
  }
  for (size_t k : {0, 6, 1000}) {
    Candidates candidates = Make(logits);
    KeepTopK(k, candidates);
    EXPECT_EQ(candidates.tokens.size(), 6u);
  }
}

TEST(KeepTopP, KeepsTheShortestRunThatReachesP) {
  const std::vector<float> logits = Logs({0.1, 0.4, 0.2, 0.3});
  for (const auto& [p, ids] : std::vector<std::pair<double, std::vector<int32_t>>>{{0.0, {1}},
                                                                                   {0.3, {1}},
                                                                                   {0.41, {1, 3}},
                                                                                   {0.69, {1, 3}},
                                                                                   {0.71, {1, 3, 2}},
                                                                                   {0.89, {1, 3, 2}},
                                                                                   {0.91, {1, 3, 2, 0}}}) {
    Candidates candidates = Make(logits);
    KeepTopP(p, candidates);
    EXPECT_EQ(IdsOf(candidates), ids) << p;
  }
  Candidates candidates = Make(logits);
  KeepTopP(1.0, candidates);
  EXPECT_EQ(candidates.tokens.size(), 4u);
}

// What an earlier step removed no longer counts: of {0.4, 0.3} the first has 4/7.
TEST(KeepTopP, CountsWhatIsLeft) {
  Candidates candidates = Make(Logs({0.1, 0.4, 0.2, 0.3}));
  KeepTopK(2, candidates);
  KeepTopP(0.57, candidates);
  EXPECT_THAT(IdsOf(candidates), ElementsAre(1));
  candidates = Make(Logs({0.1, 0.4, 0.2, 0.3}));
  KeepTopK(2, candidates);
  KeepTopP(0.58, candidates);
  EXPECT_THAT(IdsOf(candidates), ElementsAre(1, 3));
}

TEST(KeepMinP, ComparesWithTheMostLikely) {
  const std::vector<float> logits = Logs({0.1, 0.4, 0.2, 0.3});
  for (const auto& [p, ids] : std::vector<std::pair<double, std::vector<int32_t>>>{{0.0, {0, 1, 2, 3}},
                                                                                   {0.24, {0, 1, 2, 3}},
                                                                                   {0.26, {1, 2, 3}},
                                                                                   {0.49, {1, 2, 3}},
                                                                                   {0.51, {1, 3}},
                                                                                   {0.76, {1}},
                                                                                   {1.0, {1}}}) {
    Candidates candidates = Make(logits);
    KeepMinP(p, candidates);
    EXPECT_EQ(IdsOf(candidates), ids) << p;
  }
}

TEST(Penalise, DividesPositiveAndMultipliesNegativeOnce) {
  Candidates candidates = Make({2, -2, 3, 0, 5});
  Penalise(std::vector<int32_t>{0, 1, 3, 0, 0, 99}, 2.0f, candidates);
  EXPECT_EQ(candidates.tokens[0].logit, 1.0f);
  EXPECT_EQ(candidates.tokens[1].logit, -4.0f);
  EXPECT_EQ(candidates.tokens[2].logit, 3.0f);
  EXPECT_EQ(candidates.tokens[3].logit, 0.0f);
  EXPECT_EQ(candidates.tokens[4].logit, 5.0f);
  candidates = Make({3e38f, -3e38f});
  Penalise(std::vector<int32_t>{0, 1}, 0.01f, candidates);
  Penalise(std::vector<int32_t>{0, 1}, 100.0f, candidates);
  for (const Candidate& c : candidates.tokens) EXPECT_TRUE(std::isfinite(c.logit)) << c.id;
}

TEST(MostLikely, TheLowestIdAmongEquals) {
  EXPECT_EQ(MostLikely(Make({1, 7, 7, 3})), 1);
  EXPECT_EQ(MostLikely(Make({-kInf, -5, -5})), 1);
}

TEST(Draw, WalksTheCumulativeWeights) {
  const Candidates candidates = Make(Logs({0.1, 0.4, 0.2, 0.3}));
  for (const auto& [u, id] : std::vector<std::pair<double, int32_t>>{
           {0.0, 0}, {0.0999, 0}, {0.1001, 1}, {0.4999, 1}, {0.5001, 2}, {0.6999, 2}, {0.7001, 3}, {1 - 0x1p-53, 3}}) {
    EXPECT_EQ(Draw(1.0, u, candidates), id) << u;
  }
  // Temperature 0.5 squares the probabilities: 0.01, 0.16, 0.04, 0.09 of 0.30.
  EXPECT_EQ(Draw(0.5, 0.0333, candidates), 0);
  EXPECT_EQ(Draw(0.5, 0.0334, candidates), 1);
  EXPECT_EQ(Draw(0.5, 0.5666, candidates), 1);
  EXPECT_EQ(Draw(0.5, 0.5667, candidates), 2);
  // Huge logits and tiny temperatures stay finite.
  EXPECT_EQ(Draw(1e-38, 0.9, Make({3e38f, -3e38f, 2e38f})), 0);
  EXPECT_EQ(Draw(100, 0.4, Make({-3e38f, -3e38f})), 0);
  EXPECT_EQ(Draw(100, 0.6, Make({-3e38f, -3e38f})), 1);
}

Sampler MakeSampler(const SamplerOptions& options) {
  auto sampler = Sampler::Create(options);
  EXPECT_TRUE(sampler.ok()) << sampler.status().ToString();
  return std::move(sampler).value();
}

// Values that samplers elsewhere took and made nonsense of, and the edges.
TEST(SamplerOptions, FieldsOutOfRangeAreNamedWithTheirRange) {
  const auto expect = [](SamplerOptions options, const char* message) {
    const auto sampler = Sampler::Create(options);
    ASSERT_FALSE(sampler.ok()) << message;
    EXPECT_EQ(sampler.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(sampler.status().ToString(), HasSubstr(message));
  };
  expect({.temperature = 999999}, "temperature is 999999, expected 0 to 100");
  expect({.temperature = -1}, "temperature is -1");
  expect({.top_k = -1}, "top_k is -1, expected 0 (off) to 2147483647");
  expect({.top_p = -1}, "top_p is -1, expected 0 to 1");
  expect({.top_p = 1.5f}, "top_p is 1.5");
  expect({.min_p = -0.1f}, "min_p is -0.1");
  expect({.repeat_penalty = 0}, "repeat_penalty is 0, expected 0.01 to 100");
  expect({.repeat_last_n = 1u << 30}, "repeat_last_n is 1073741824");
  for (float bad : {kNan, kInf, -kInf}) {
    expect({.temperature = bad}, "temperature is");
    expect({.top_p = bad}, "top_p is");
    expect({.min_p = bad}, "min_p is");
    expect({.repeat_penalty = bad}, "repeat_penalty is");
  }
  for (float temperature : {0.0f, 100.0f}) EXPECT_TRUE(Sampler::Create({.temperature = temperature}).ok());
  for (float p : {0.0f, 1.0f}) EXPECT_TRUE(Sampler::Create({.top_p = p, .min_p = p}).ok());
}

TEST(Sampler, ZeroTemperatureIsArgmaxWhateverTheRest) {
  Sampler sampler = MakeSampler({.temperature = 0, .top_k = 1, .top_p = 0, .min_p = 1, .seed = 5});
  EXPECT_EQ(sampler.Next(std::vector<float>{1, 9, 9, 3}).value(), 1);
}

TEST(Sampler, AnErrorLeavesTheSamplerUsableAndItsNumbersUnused) {
  Sampler a = MakeSampler({.seed = 3}), b = MakeSampler({.seed = 3});
  const std::vector<float> logits = Logs({0.1, 0.4, 0.2, 0.3});
  EXPECT_FALSE(a.Next(std::vector<float>{0, kNan}).ok());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(a.Next(logits).value(), b.Next(logits).value());
}

TEST(Sampler, ASeedDecidesEverything) {
  const std::vector<float> logits = Logs({0.1, 0.4, 0.2, 0.3});
  const auto text = [&](uint64_t seed) {
    Sampler sampler = MakeSampler({.seed = seed});
    std::string ids;
    for (int i = 0; i < 40; ++i) ids += static_cast<char>('0' + sampler.Next(logits).value());
    return ids;
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

// Pearson's statistic over 100000 draws against the closed form softmax(logit / temperature) of what the cuts leave.
// With d degrees of freedom P(chi^2 > d + 2 sqrt(d t) + 2t) <= exp(-t) (Laurent and Massart 2000, lemma 1); t = 20 is
// one in five hundred million.
void ExpectDistribution(const SamplerOptions& options, const std::vector<float>& logits,
                        const std::vector<double>& expected) {
  Sampler sampler = MakeSampler(options);
  const int draws = 100000;
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) ++counts[static_cast<size_t>(sampler.Next(logits).value())];
  double total = 0, statistic = 0, degrees = -1;
  for (double p : expected) total += p;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == 0) {
      EXPECT_EQ(counts[i], 0) << i;
      continue;
    }
    const double mean = draws * expected[i] / total;
    statistic += (counts[i] - mean) * (counts[i] - mean) / mean;
    ++degrees;
  }
  EXPECT_LT(statistic, degrees + 2 * std::sqrt(degrees * 20) + 2 * 20);
}

TEST(Sampler, DrawsFromTheSoftmax) {
  const std::vector<double> p = {0.05, 0.4, 0.2, 0.05, 0.3};
  ExpectDistribution({.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 1}, Logs(p), p);
  ExpectDistribution({.temperature = 0.5f, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 2}, Logs(p),
                     {0.05 * 0.05, 0.4 * 0.4, 0.2 * 0.2, 0.05 * 0.05, 0.3 * 0.3});
  ExpectDistribution({.temperature = 2, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 3}, Logs(p),
                     {std::sqrt(0.05), std::sqrt(0.4), std::sqrt(0.2), std::sqrt(0.05), std::sqrt(0.3)});
}

TEST(Sampler, CutsThenTemperature) {
  const std::vector<double> p = {0.05, 0.4, 0.2, 0.05, 0.3};
  ExpectDistribution({.temperature = 1, .top_k = 3, .top_p = 1, .min_p = 0, .seed = 4}, Logs(p), {0, 0.4, 0.2, 0, 0.3});
  ExpectDistribution({.temperature = 1, .top_k = 0, .top_p = 0.65f, .min_p = 0, .seed = 5}, Logs(p),
                     {0, 0.4, 0, 0, 0.3});
  ExpectDistribution({.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0.3f, .seed = 6}, Logs(p),
                     {0, 0.4, 0.2, 0, 0.3});
  // The cuts see the probabilities before the temperature: at temperature 10 the five are nearly equal, yet top-p
  // leaves two.
  ExpectDistribution({.temperature = 10, .top_k = 0, .top_p = 0.65f, .min_p = 0, .seed = 7}, Logs(p),
                     {0, std::pow(0.4, 0.1), 0, 0, std::pow(0.3, 0.1)});
}

TEST(Sampler, ThePenaltyLooksBackExactlyLastN) {
  const std::vector<float> logits = {4, 3, 2, 1};
  Sampler sampler = MakeSampler({.temperature = 0, .repeat_penalty = 100, .repeat_last_n = 3});
  std::string ids;
  for (int i = 0; i < 8; ++i) {
    const int32_t id = sampler.Next(logits).value();
    ids += static_cast<char>('0' + id);
    sampler.Accept(id);
  }
  EXPECT_EQ(ids, "01230123") << "each token is free again after three others";
  Sampler off = MakeSampler({.temperature = 0, .repeat_penalty = 100, .repeat_last_n = 0});
  off.Accept(0);
  EXPECT_EQ(off.Next(logits).value(), 0);
}

}  // namespace
}  // namespace moonlit
