// SPDX-License-Identifier: Apache-2.0
// Chains: their order, their random numbers, their state, and what they refuse.
#include "runtime/decode/sampler_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/decode/sampler.h"
#include "tests/decode/fake_model.h"

namespace moonlit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename... Steps>
Sampler ChainOf(uint64_t seed, Steps... steps) {
  Sampler sampler(seed);
  const auto append = [&](auto step) {
    const Status status = sampler.Append(std::move(step));
    EXPECT_TRUE(status.ok()) << status.ToString();
  };
  (append(std::move(steps)), ...);
  return sampler;
}

// Integers alone: multiples of 1/64 in [-8, 8).
std::vector<float> RandomLogits(Random& random, size_t count) {
  std::vector<float> logits;
  for (size_t i = 0; i < count; ++i)
    logits.push_back(static_cast<float>(static_cast<int>(random.Next() >> 54) - 512) / 64.0f);
  return logits;
}

std::vector<int32_t> TokensOf(Sampler& sampler, size_t tokens = 24, size_t n_vocab = 500) {
  Random random(99);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < tokens; ++i) {
    const Result<int32_t> id = sampler.Next(RandomLogits(random, n_vocab));
    EXPECT_TRUE(id.ok()) << id.status().ToString();
    if (!id.ok()) break;
    ids.push_back(*id);
    const Status accepted = sampler.AcceptChosen(*id);
    EXPECT_TRUE(accepted.ok()) << accepted.ToString();
  }
  return ids;
}

std::vector<int32_t> TokensOf(Sampler&& sampler) { return TokensOf(sampler); }

std::vector<int32_t> TokensOf(const SamplerOptions& options) {
  auto sampler = Sampler::Create(options);
  EXPECT_TRUE(sampler.ok()) << sampler.status().ToString();
  return TokensOf(*sampler);
}

// What these seeds have always meant; a change of it changes everybody's texts.
TEST(Sampler, SeedsMeanTheseTokens) {
  EXPECT_THAT(TokensOf({.seed = 7}), ElementsAre(69, 143, 62, 440, 333, 347, 341, 499, 15, 226, 416, 70, 137, 315, 208,
                                                 37, 442, 257, 87, 448, 356, 55, 260, 115));
  EXPECT_THAT(TokensOf({.temperature = 1.5f, .top_k = 0, .top_p = 0.9f, .min_p = 0.02f, .seed = 8}),
              ElementsAre(437, 13, 204, 99, 335, 153, 180, 215, 263, 112, 142, 76, 302, 248, 180, 29, 197, 437, 224,
                          386, 8, 453, 462, 479));
  EXPECT_THAT(TokensOf({.temperature = 2.0f,
                        .top_k = 100,
                        .top_p = 1.0f,
                        .min_p = 0.0f,
                        .repeat_penalty = 1.3f,
                        .repeat_last_n = 8,
                        .seed = 9}),
              ElementsAre(37, 487, 462, 110, 13, 403, 446, 74, 1, 181, 26, 316, 444, 366, 324, 350, 493, 89, 492, 335,
                          291, 330, 54, 11));
  EXPECT_THAT(TokensOf({.temperature = 0.0f, .repeat_penalty = 5.0f, .seed = 9}),
              ElementsAre(37, 22, 224, 55, 268, 104, 80, 127, 158, 403, 166, 339, 190, 119, 231, 390, 167, 3, 348, 422,
                          270, 69, 277, 122));
}

TEST(Sampler, TheDefaultChainStepByStepAndWithAllThatIsOff) {
  const SamplerOptions options{
      .temperature = 1.5f, .top_k = 50, .repeat_penalty = 1.5f, .repeat_last_n = 16, .seed = 3};
  const PenaltyOptions penalties{.last_n = 16, .repeat = 1.5f};
  EXPECT_EQ(TokensOf(ChainOf(3, MakePenalties(penalties), MakeTopK(50), MakeTopP(0.95f), MakeMinP(0.05f),
                             MakeTemperature(1.5f), MakeDraw())),
            TokensOf(options));
  EXPECT_EQ(TokensOf(ChainOf(3, MakeLogitBias({}, 500), MakePenalties(penalties), MakeDry({}, nullptr),
                             MakeTopNSigma(0), MakeTopK(50), MakeTypical(1), MakeTopP(0.95f), MakeMinP(0.05f),
                             MakeXtc(0, 0.1f), MakeXtc(1, 0.6f), MakeTemperature(1.5f, 0, 1), MakeDraw())),
            TokensOf(options));
}

TEST(Sampler, TheOrderIsTheCallers) {
  // Of five equal tokens top-p 0.5 leaves three, top-k two: of two top-p leaves one.
  const std::vector<float> logits = {1, 1, 1, 1, 1};
  const auto kinds = [&](Sampler sampler) {
    std::vector<int> seen(5);
    for (int i = 0; i < 200; ++i) ++seen[static_cast<size_t>(sampler.Next(logits).value())];
    return std::count_if(seen.begin(), seen.end(), [](int n) { return n > 0; });
  };
  EXPECT_EQ(kinds(ChainOf(1, MakeTopP(0.5f), MakeTopK(2), MakeDraw())), 2);
  EXPECT_EQ(kinds(ChainOf(1, MakeTopK(2), MakeTopP(0.5f), MakeDraw())), 1);
  // A temperature counts for what comes after it.
  EXPECT_EQ(ChainOf(1, MakeTemperature(0.01f), MakeTopP(0.9f), MakeDraw()).Next(std::vector<float>{1, 2, 1}).value(),
            1);
}

// One number for XTC, one for the draw, in the chain's order; what is off takes none.
TEST(Sampler, RandomNumbersAreTakenInTheChainsOrder) {
  const std::vector<float> logits = {1, 1, 1, 1};
  Random random(17);
  Sampler sampler = ChainOf(17, MakeXtc(0.5f, 0.2f), MakeXtc(0, 0.2f), MakeXtc(0.5f, 0.51f), MakeDraw());
  for (int i = 0; i < 100; ++i) {
    const bool removes = random.NextUniform() < 0.5;
    const double uniform = random.NextUniform();
    const int32_t expected = removes ? 3 : static_cast<int32_t>(uniform * 4);
    EXPECT_EQ(sampler.Next(logits).value(), expected) << i;
  }
}

// The loop of the papers, with numbers of the same generator.
TEST(Sampler, MirostatIsItsLoop) {
  for (const int version : {1, 2}) {
    Sampler sampler = ChainOf(23, MakeMirostat(version, 3.0f, 0.25f));
    Random numbers(23), random(5);
    double mu = 6;
    for (int step = 0; step < 200; ++step) {
      const std::vector<float> logits = RandomLogits(random, 150);
      std::vector<std::pair<double, int32_t>> tokens;
      for (size_t i = 0; i < logits.size(); ++i)
        tokens.emplace_back(std::exp(double{logits[i]}), static_cast<int32_t>(i));
      std::stable_sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
      double total = 0;
      for (const auto& token : tokens) total += token.first;
      size_t keep = 1;
      if (version == 2) {
        while (keep < tokens.size() && -std::log2(tokens[keep].first / total) <= mu) ++keep;
      } else {
        double tb = 0, tt = 0;
        for (size_t i = 0; i < 99; ++i) {
          const double t = std::log((static_cast<double>(i) + 2) / (static_cast<double>(i) + 1));
          tb += t * std::log(tokens[i].first / tokens[i + 1].first);
          tt += t * t;
        }
        const double s = tb / tt, epsilon = s - 1;
        const double k = std::pow(epsilon * std::pow(2, mu) / (1 - std::pow(150, -epsilon)), 1 / s);
        keep = static_cast<size_t>(std::clamp(k, 1.0, 150.0));
      }
      double left = 0, sum = 0;
      for (size_t i = 0; i < keep; ++i) left += tokens[i].first;
      const double uniform = numbers.NextUniform();
      size_t chosen = 0;
      while ((sum += tokens[chosen].first) <= uniform * left) ++chosen;
      mu -= 0.25 * (-std::log2(tokens[chosen].first / left) - 3);
      ASSERT_EQ(sampler.Next(logits).value(), tokens[chosen].second) << version << " " << step;
    }
  }
}

TEST(Sampler, DynamicTemperatureIsTheTemperatureOfThatEntropy) {
  Sampler dynamic = ChainOf(5, MakeTemperature(1.5f, 1.0f, 2.0f), MakeDraw());
  Random random(6), numbers(5);
  for (int i = 0; i < 50; ++i) {
    const std::vector<float> logits = RandomLogits(random, 20);
    Candidates candidates;
    ASSERT_TRUE(Fill(logits, candidates).ok());
    const double temperature = DynamicTemperature(0.5, 2.5, 2.0, candidates);
    EXPECT_EQ(dynamic.Next(logits).value(), Draw(temperature, numbers.NextUniform(), candidates));
  }
  EXPECT_EQ(TokensOf(ChainOf(5, MakeTopK(1), MakeTemperature(1.5f, 1.0f, 2.0f), MakeDraw())),
            TokensOf(ChainOf(5, MakeTopK(1), MakeDraw())));
  // One token far above: the lowest, 0, whatever the number.
  Sampler sure = ChainOf(5, MakeTemperature(0.5f, 1.0f), MakeDraw());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(sure.Next(std::vector<float>{0, 900, 0}).value(), 1);
  // Without a temperature there is no range.
  EXPECT_EQ(TokensOf(ChainOf(5, MakeTemperature(0, 1.0f), MakeDraw())), TokensOf(ChainOf(5, MakeGreedy())));
}

TEST(Sampler, PenaltiesAndDryLookBackAsFarAsTheySay) {
  const std::vector<float> logits = {4, 3, 2, 1};
  const auto text = [&](Sampler sampler, int tokens) {
    std::string ids;
    for (int i = 0; i < tokens; ++i) {
      const int32_t id = sampler.Next(logits).value();
      ids += static_cast<char>('0' + id);
      EXPECT_TRUE(sampler.AcceptChosen(id).ok());
    }
    return ids;
  };
  EXPECT_EQ(text(ChainOf(1, MakePenalties({.last_n = 3, .presence = 100}), MakeGreedy()), 8), "01230123");
  // Each occurrence costs one: 4, 3 3, 2 2 2, ...
  EXPECT_EQ(text(ChainOf(1, MakePenalties({.frequency = 1.0f}), MakeGreedy()), 6), "001012");
  EXPECT_EQ(text(ChainOf(1, MakePenalties({.last_n = 0, .frequency = 1.0f}), MakeGreedy()), 3), "000");
  // A second token of the same kind is free, a third would repeat two.
  DryOptions dry{.multiplier = 100, .allowed_length = 1};
  EXPECT_EQ(text(ChainOf(1, MakeDry(dry, nullptr), MakeGreedy()), 3), "001");
  dry.last_n = 1;
  EXPECT_EQ(text(ChainOf(1, MakeDry(dry, nullptr), MakeGreedy()), 3), "000");
}

TEST(Sampler, DryStopsAtBreakersAndSparesThem) {
  const auto tokenizer = MakeFakeTokenizer(true);
  const int32_t one = WordToken("one"), two = WordToken("two"), newline = ByteToken('\n');
  std::vector<float> logits(kFakeVocab, 0.0f);
  const auto next = [&](const std::vector<int32_t>& text, int32_t favourite, std::vector<std::string> breakers) {
    Sampler sampler =
        ChainOf(1, MakeDry({.multiplier = 10, .breakers = std::move(breakers)}, tokenizer.get()), MakeGreedy());
    for (const int32_t id : text) sampler.Accept(id);
    logits.assign(kFakeVocab, 0.0f);
    logits[static_cast<size_t>(favourite)] = 1;
    return sampler.Next(logits).value() == favourite;
  };
  EXPECT_FALSE(next({one, newline, one, two, one, newline, one}, two, {}));
  EXPECT_TRUE(next({one, newline, one, two, one, newline, one}, two, {"\n"}));
  EXPECT_TRUE(next({one, newline, one, two, one, newline, one}, two, {"one"}));
  EXPECT_FALSE(next({two, two, one, newline, two, two, one}, newline, {}));
  EXPECT_TRUE(next({two, two, one, newline, two, two, one}, newline, {"\n"})) << "a breaker itself is never penalised";
  // Control tokens are breakers by what they are called.
  EXPECT_TRUE(next({one, kBeginToken, one, two, one, kBeginToken, one}, two, {"<s>"}));
}

GrammarMask MakeMask(const Tokenizer& tokenizer, const std::string& text) {
  auto mask = GrammarMask::Create(std::make_shared<const Grammar>(Grammar::Parse(text).value()),
                                  std::make_shared<const TokenOrder>(tokenizer));
  EXPECT_TRUE(mask.ok());
  return std::move(mask).value();
}

TEST(Sampler, AGrammarIsAStep) {
  const auto tokenizer = MakeFakeTokenizer(true);
  Sampler sampler = ChainOf(1, MakeGrammar(MakeMask(*tokenizer, "root ::= \"ab\" \"J\"?")), MakeGreedy());
  sampler.Accept(WordToken("stop"));  // the prompt is no part of it
  std::vector<float> logits(kFakeVocab, 0.0f);
  logits[static_cast<size_t>(WordToken("X"))] = 5;
  logits[static_cast<size_t>(WordToken("ab"))] = 1;
  const std::atomic<bool> cancel = true;
  EXPECT_EQ(sampler.Next(logits, &cancel).status().code(), Code::kCancelled);
  EXPECT_EQ(sampler.Next(logits).value(), WordToken("ab"));
  EXPECT_FALSE(sampler.must_end());
  ASSERT_TRUE(sampler.AcceptChosen(WordToken("ab")).ok());
  EXPECT_EQ(sampler.Next(logits).value(), kEndToken) << "among equals the lowest id";
  auto clone = sampler.Clone();
  ASSERT_TRUE(clone.ok());
  ASSERT_TRUE(sampler.AcceptChosen(WordToken("J")).ok());
  EXPECT_TRUE(sampler.must_end());
  EXPECT_FALSE(clone->must_end());
  const Status status = sampler.AcceptChosen(WordToken("J"));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.ToString(), HasSubstr("step 1 (grammar)"));
  sampler.Reset(1);
  EXPECT_EQ(sampler.Next(logits).value(), WordToken("ab"));
  // Behind a cut there may be nothing left, which is no reason to leave the grammar.
  Sampler late = ChainOf(1, MakeTopK(1), MakeGrammar(MakeMask(*tokenizer, "root ::= \"ab\"")), MakeGreedy());
  EXPECT_EQ(late.Next(logits).status().code(), Code::kUnsupported);
}

TEST(Sampler, ResetAndCloneAreTheWholeState) {
  const auto tokenizer = MakeFakeTokenizer(true);
  Sampler sampler = ChainOf(4, MakePenalties({.repeat = 1.3f, .frequency = 0.3f, .presence = 0.2f}),
                            MakeDry({.multiplier = 1}, tokenizer.get()), MakeXtc(0.5f, 0.1f), MakeMirostat(2, 3, 0.3f));
  const std::vector<int32_t> first = TokensOf(sampler, 40, kFakeVocab);
  auto clone = sampler.Clone();
  ASSERT_TRUE(clone.ok());
  const std::vector<int32_t> second = TokensOf(sampler, 40, kFakeVocab);
  EXPECT_NE(first, second);
  EXPECT_EQ(TokensOf(*clone, 40, kFakeVocab), second);
  sampler.Reset(4);
  EXPECT_EQ(TokensOf(sampler, 40, kFakeVocab), first);
  sampler.Reset(5);
  EXPECT_NE(TokensOf(sampler, 40, kFakeVocab), first);
}

TEST(Sampler, AHistoryCanBeReplaced) {
  const std::vector<float> logits = {4, 3, 2};
  Sampler sampler = ChainOf(1, MakePenalties({.presence = 10}), MakeGreedy());
  sampler.Accept(0);
  EXPECT_EQ(sampler.Next(logits).value(), 1);
  sampler.SetHistory(std::vector<int32_t>{1, 2});
  EXPECT_EQ(sampler.Next(logits).value(), 0);
}

TEST(Sampler, ChainsThatMakeNoSenseAreRefused) {
  EXPECT_THAT(Sampler(1).Next(std::vector<float>{1}).status().ToString(), HasSubstr("no step chooses"));
  EXPECT_EQ(ChainOf(1, MakeTopK(1)).Next(std::vector<float>{1}).status().code(), Code::kInvalidArgument);
  Sampler sampler = ChainOf(1, MakeTopK(4), MakeGreedy());
  EXPECT_THAT(sampler.Append(MakeTopK(3)).ToString(), HasSubstr("greedy chooses, so no step may follow it"));
  EXPECT_EQ(sampler.Next({}).status().code(), Code::kInvalidArgument);
  Sampler used = ChainOf(1, MakeTopK(4));
  used.Accept(3);
  EXPECT_THAT(used.Append(MakeGreedy()).ToString(), HasSubstr("once a token was chosen or accepted"));
  used.Reset(1);
  EXPECT_TRUE(used.Append(MakeGreedy()).ok());
  Sampler full(1);
  for (size_t i = 0; i < Sampler::kMostSteps; ++i) EXPECT_TRUE(full.Append(MakeTopK(3)).ok());
  EXPECT_THAT(full.Append(MakeGreedy()).ToString(), HasSubstr("at most 64 steps"));
}

TEST(Sampler, OptionsOutOfRangeAreNamedWithTheirRange) {
  const auto expect = [](const StepResult& step, const char* message) {
    ASSERT_FALSE(step.ok()) << message;
    EXPECT_EQ(step.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(step.status().ToString(), HasSubstr(message));
  };
  for (const float bad : {kNan, kInf, -kInf, -1.0f, 1e9f}) {
    expect(MakePenalties({.repeat = bad}), "repeat_penalty is");
    expect(MakeDry({.multiplier = bad}, nullptr), "dry_multiplier is");
    expect(MakeDry({.base = bad}, nullptr), "dry_base is");
    expect(MakeTypical(bad), "typical_p is");
    expect(MakeTopP(bad), "top_p is");
    expect(MakeMinP(bad), "min_p is");
    expect(MakeTopNSigma(bad), "top_n_sigma is");
    expect(MakeXtc(bad, 0.1f), "xtc_probability is");
    expect(MakeXtc(0.5f, bad), "xtc_threshold is");
    expect(MakeTemperature(bad), "temperature is");
    expect(MakeTemperature(1, bad), "dynatemp_range is");
    expect(MakeTemperature(1, 1, bad), "dynatemp_exponent is");
    expect(MakeMirostat(2, bad, 0.1f), "mirostat_tau is");
    expect(MakeMirostat(2, 5, bad), "mirostat_eta is");
  }
  for (const float bad : {kNan, kInf, -kInf, -101.0f, 101.0f}) {
    expect(MakePenalties({.frequency = bad}), "frequency_penalty is");
    expect(MakePenalties({.presence = bad}), "presence_penalty is");
  }
  expect(MakePenalties({.last_n = 1u << 31}), "repeat_last_n is 2147483648, expected 0 (off) to 1000000");
  expect(MakeDry({.last_n = UINT32_MAX}, nullptr), "dry_last_n is");
  expect(MakeDry({.allowed_length = UINT32_MAX}, nullptr), "dry_allowed_length is");
  expect(MakeDry({.breakers = {"a", ""}}, nullptr), "dry_breakers[1] has 0 bytes, expected 1 to 1024");
  expect(MakeDry({.breakers = {std::string(1025, 'a')}}, nullptr), "dry_breakers[0] has 1025 bytes");
  expect(MakeDry({.breakers = std::vector<std::string>(257, "a")}, nullptr), "257 dry_breakers, expected at most 256");
  expect(MakeTopK(INT32_MIN), "top_k is -2147483648");
  expect(MakeMirostat(3, 5, 0.1f), "the version is 3, expected 1 or 2");
  expect(MakeLogitBias({{10, 1.0f}}, 10), "token 10: the vocabulary has tokens 0 to 9");
  expect(MakeLogitBias({{-1, 1.0f}}, 10), "token -1");
  for (const float bad : {kNan, kInf}) expect(MakeLogitBias({{3, bad}}, 10), "bias of token 3 is");
  EXPECT_TRUE(MakeLogitBias({{3, -kInf}}, 10).ok());
}

TEST(Sampler, AFaultOfAStepNamesItAndTakesNoNumber) {
  std::vector<LogitBias> all;
  for (int32_t id = 0; id < 2; ++id) all.push_back({id, -kInf});
  Sampler sampler = ChainOf(6, MakeXtc(0.5f, 0.2f), MakeLogitBias(all, 9), MakeDraw());
  EXPECT_THAT(sampler.Next(std::vector<float>{1, 1}).status().ToString(),
              HasSubstr("step 2 (logit-bias): the biases forbid"));
  Sampler same = ChainOf(6, MakeXtc(0.5f, 0.2f), MakeLogitBias(all, 9), MakeDraw());
  const std::vector<float> logits(9, 1.0f);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(sampler.Next(logits).value(), same.Next(logits).value());
  EXPECT_EQ(sampler.Next(std::vector<float>{1, kNan, 2}).status().code(), Code::kInternal);
}

StepResult RandomStep(Random& random, const Tokenizer& tokenizer) {
  const auto uniform = [&](float most) { return static_cast<float>(random.NextUniform()) * most; };
  switch (random.Next() % 10) {
    case 0:
      return MakeLogitBias({{static_cast<int32_t>(random.Next() % kFakeVocab), uniform(9)},
                            {static_cast<int32_t>(random.Next() % kFakeVocab), -kInf}},
                           kFakeVocab);
    case 1:
      return MakePenalties({.repeat = 0.5f + uniform(2), .frequency = uniform(4) - 2, .presence = uniform(4) - 2});
    case 2:
      return MakeDry({.multiplier = uniform(4), .base = 1 + uniform(2), .allowed_length = 1}, &tokenizer);
    case 3:
      return MakeTopK(static_cast<int32_t>(random.Next() % 50));
    case 4:
      return MakeTopP(uniform(1));
    case 5:
      return MakeMinP(uniform(1));
    case 6:
      return MakeTypical(uniform(1));
    case 7:
      return MakeTopNSigma(uniform(3));
    case 8:
      return MakeXtc(uniform(1), uniform(0.5f));
    default:
      return MakeTemperature(uniform(2), uniform(2), uniform(3));
  }
}

// Whatever stands behind a grammar, in whatever order, chooses what it allows.
TEST(Sampler, AnyChainStaysWithinItsGrammar) {
  const auto tokenizer = MakeFakeTokenizer(true);
  const GrammarMask start =
      MakeMask(*tokenizer, "root ::= (\"one\" | \"two\" | [a-f]{1,3} | \" \" [A-Z]){1,20} [.\\n]");
  Random random(12);
  for (int round = 0; round < 60; ++round) {
    Sampler sampler(random.Next());
    ASSERT_TRUE(sampler.Append(MakeGrammar(start)).ok());
    for (size_t steps = random.Next() % 12; steps > 0; --steps)
      ASSERT_TRUE(sampler.Append(RandomStep(random, *tokenizer)).ok());
    const size_t end = random.Next() % 4;
    ASSERT_TRUE((end == 0   ? sampler.Append(MakeGreedy())
                 : end == 1 ? sampler.Append(MakeDraw())
                            : sampler.Append(MakeMirostat(static_cast<int>(end) - 1, 3, 0.2f)))
                    .ok());
    GrammarMask judge = start;
    for (int token = 0; token < 20 && !judge.must_end(); ++token) {
      const Result<int32_t> id = sampler.Next(RandomLogits(random, kFakeVocab));
      if (!id.ok()) {  // two biases may forbid all that a short list has
        ASSERT_THAT(id.status().ToString(), HasSubstr("(logit-bias): the biases forbid")) << round;
        break;
      }
      ASSERT_TRUE((*judge.Next())->Has(*id)) << round;
      ASSERT_TRUE(judge.Accept(*id).ok());
      ASSERT_TRUE(sampler.AcceptChosen(*id).ok());
      ASSERT_EQ(sampler.must_end(), judge.must_end());
    }
  }
}

}  // namespace
}  // namespace moonlit
