// SPDX-License-Identifier: Apache-2.0
// How the commands choose tokens: llama.cpp's flags.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/process.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;

using Flags = std::vector<std::string>;

Outcome Generate(const Flags& flags) {
  Flags words = {"generate",     "-p",     "春江潮水", "--seed",           "7",  "-n", "24",
                 "--ignore-eos", "--temp", "1.5",      "--repeat-penalty", "1.2"};
  words.insert(words.end(), flags.begin(), flags.end());
  return RunMoonlit(words);
}

std::string Text(const Flags& flags) {
  const Outcome run = Generate(flags);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.out;
}

TEST(Sampling, WhatIsOffChangesNothing) {
  EXPECT_EQ(Text({"--typical", "1", "--presence-penalty", "0", "--frequency-penalty", "0", "--dry-multiplier", "0",
                  "--xtc-probability", "0", "--top-nsigma", "-1", "--dynatemp-range", "0", "--mirostat", "0",
                  "--samplers", "penalties;dry;top-n-sigma;top-k;typical;nucleus;min-p;xtc;temp"}),
            Text({}));
}

TEST(Sampling, EachFlagChangesTheText) {
  const std::string plain = Text({});
  const std::vector<Flags> all = {
      {"--typical", "0.3"},
      {"--presence-penalty", "4"},
      {"--frequency-penalty", "-4"},
      {"--dry-multiplier", "20", "--dry-allowed-length", "0", "--dry-sequence-breaker", "none"},
      {"--xtc-probability", "1", "--xtc-threshold", "0.02"},
      {"--top-nsigma", "0.1"},
      {"--dynatemp-range", "1.4", "--dynatemp-exp", "3"},
      {"--mirostat", "2", "--mirostat-ent", "1", "--mirostat-lr", "0.5"},
      {"--mirostat", "1"},
      {"-l", "100+100"},
      {"--samplers", "temperature"},
      {"--samplers", "temperature;top_k;top_p;min_p", "--top-p", "0.5"}};
  for (const Flags& flags : all) EXPECT_NE(Text(flags), plain) << flags[0] << ' ' << flags[1];
}

TEST(Sampling, TheOrderIsTheOneGiven) {
  EXPECT_NE(Text({"--top-p", "0.6", "--samplers", "top_p;temperature"}),
            Text({"--top-p", "0.6", "--samplers", "temperature;top_p"}));
  EXPECT_EQ(
      Text({"--samplers", "top_k", "--top-k", "1"}),
      RunMoonlit({"generate", "-p", "春江潮水", "-n", "24", "--ignore-eos", "--temp", "0", "--samplers", ""}).out);
}

TEST(Sampling, TemperatureZeroIsTheMostLikelyToken) {
  const Flags greedy = {"generate", "-p", "床前明月", "--temp", "0"};
  const std::string verse = RunMoonlit(greedy).out;
  Flags cuts = greedy;
  for (const char* word :
       {"--xtc-probability", "1", "--xtc-threshold", "0", "--typical", "0", "--mirostat", "2", "--dynatemp-range", "5"})
    cuts.emplace_back(word);
  EXPECT_EQ(RunMoonlit(cuts).out, verse);
  Flags bias = greedy;
  bias.insert(bias.end(), {"-n", "1", "--logit-bias", "5-inf", "-l", "6-1.5", "-l", "7+1e9"});
  EXPECT_NE(RunMoonlit(bias).out, RunMoonlit({"generate", "-p", "床前明月", "--temp", "0", "-n", "1"}).out);
}

TEST(Sampling, AGrammarStandsBeforeEverything) {
  const Outcome run =
      Generate({"--grammar", "root ::= [月光]{3} \"。\"", "--samplers", "temperature;top_k;typical", "--typical", "0.1",
                "--dry-multiplier", "9", "--xtc-probability", "1", "--mirostat", "2"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out.find_first_not_of("月光"), 9u) << run.out;
  EXPECT_THAT(run.out, HasSubstr("。"));
}

TEST(Sampling, AConversationsAnswersHaveOneSeedEach) {
  RunOptions options;
  options.input = "春江\n/new\n春江\n";
  const std::string file = ::testing::TempDir() + "moonlit_plain.jinja";
  std::ofstream(file, std::ios::binary) << "{{ messages[-1].content }}";
  const Flags chat = {"chat", "--chat-template-file", file, "-n", "12", "--seed", "3", "--temp",
                      "2",    "--dry-multiplier",     "1"};
  const Outcome first = RunMoonlit(chat, options);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(RunMoonlit(chat, options).out, first.out);
  const size_t line = first.out.find('\n') + 1;
  EXPECT_NE(first.out.substr(0, line), first.out.substr(line));
}

TEST(Sampling, ValuesOutOfRangeAreNamedByTheirFlag) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"--typical", "1.1"},           {"--typical", "nan"},           {"--presence-penalty", "inf"},
      {"--frequency-penalty", "101"}, {"--dry-multiplier", "-1"},     {"--dry-base", "0.5"},
      {"--dry-allowed-length", "-1"}, {"--dry-penalty-last-n", "-2"}, {"--dry-sequence-breaker", ""},
      {"--xtc-probability", "2"},     {"--xtc-threshold", "-0.1"},    {"--top-nsigma", "nan"},
      {"--dynatemp-range", "-1"},     {"--dynatemp-exp", "x"},        {"--mirostat", "3"},
      {"--mirostat-lr", "7"},         {"--mirostat-ent", "-5"},       {"--samplers", "top_k;tpo_p"},
      {"--logit-bias", "15043"},      {"--logit-bias", "x+1"},        {"--logit-bias", "5+"},
      {"--logit-bias", "5--1"},       {"--logit-bias", "5+-1"},       {"--logit-bias", "99999999999+1"},
      {"--repeat-last-n", "-2"},
  };
  for (const auto& [flag, value] : wrong) {
    const Outcome run = RunMoonlit({"generate", "-m", "/no/such/model.gguf", "-p", "x", flag, value});
    EXPECT_EQ(run.exit_code, 2) << flag << ' ' << value << ' ' << run.err;
    EXPECT_THAT(run.err, HasSubstr(flag)) << value;
    EXPECT_EQ(run.err.find("/no/such"), std::string::npos) << run.err;
  }
  EXPECT_THAT(RunMoonlit({"generate", "-p", "x", "--samplers", "top_k;tpo_p"}).err, HasSubstr("found \"tpo_p\""));
}

// What only the model knows.
TEST(Sampling, IdsOutsideTheVocabularyAreRefused) {
  for (const char* bias : {"9999999+1", "3+inf", "3-nan"}) {
    const Outcome run = Generate({"-l", bias});
    EXPECT_EQ(run.exit_code, 2) << bias;
    EXPECT_THAT(run.err, HasSubstr("bias of token")) << bias;
  }
}

}  // namespace
}  // namespace moonlit::test
