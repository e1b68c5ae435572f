// SPDX-License-Identifier: Apache-2.0
// Every family against logits of an independent implementation (transformers, float32; tests/data/golden). Float weights, or
// quantized ones under `exact`, must agree in log-probabilities; the fast path must agree with a scalar pass that rounds
// activations the same way (tests/reference).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "kernels/matmul/matmul.h"
#include "tests/models/loaded_model.h"
#include "tests/models/recorder.h"
#include "tests/reference/forward.h"
#include "tests/support/slowed.h"

namespace moonlit::test {
namespace {

using Json = nlohmann::json;

struct GoldenCase {
  const char* name;
  bool exact;        // quantized weights: float activations are what the golden has
  double tolerance;  // of log-probabilities
};

// With F32 weights the fixtures' own float32 noise is below 2e-5 (their README); quantized ones carry larger weights.
constexpr GoldenCase kCases[] = {
    {"llama", false, 1e-4},       {"mistral", false, 1e-4},        {"qwen2", false, 1e-4},
    {"qwen3", false, 1e-4},       {"llama3-rope", false, 1e-4},    {"mixtral", false, 1e-4},
    {"qwen2moe", false, 1e-4},    {"qwen3moe", false, 1e-4},       {"olmoe", false, 1e-4},
    {"granitemoe", false, 1e-4},  {"smollm3", false, 1e-4},        {"arcee", false, 1e-4},
    {"ernie45", false, 1e-4},     {"seed-oss", false, 1e-4},       {"granite", false, 1e-4},
    {"olmo", false, 1e-4},        {"olmo2", false, 1e-4},          {"olmo3", false, 1e-4},
    {"stablelm", false, 1e-4},    {"phi3", false, 1e-4},           {"phi3-long", false, 1e-4},
    {"phi2", false, 1e-4},        {"gpt2", false, 1e-4},           {"gptneox", false, 1e-4},
    {"starcoder", false, 1e-4},   {"starcoder2", false, 1e-4},     {"nemotron", false, 1e-4},
    {"command-r", false, 1e-4},   {"cohere2", false, 1e-4},        {"glm4", false, 1e-4},
    {"exaone4", false, 1e-4},     {"bitnet", false, 1e-4},         {"bitnet-b158", false, 1e-4},
    {"falcon", false, 1e-4},      {"gemma", false, 1e-4},          {"gemma2", false, 1e-4},
    {"gemma3", false, 1e-4},      {"gemma4", false, 1e-3},         {"bloom", false, 1e-4},
    {"mpt", false, 1e-4},         {"internlm2", false, 1e-4},      {"llama-linear", false, 1e-4},
    {"llama-yarn", false, 1e-4},  {"llama-longrope", false, 1e-4}, {"falcon-alibi", false, 1e-4},
    {"llama-legacy", true, 2e-4}, {"llama-kquant", true, 2e-4},    {"llama-iquant", true, 2e-4},
    {"llama-lowbit", true, 2e-4}, {"bitnet-tq2", true, 2e-4}};

Json ReadGolden(const std::string& name) {
  std::ifstream file(FixturePath(name, "golden.json"));
  EXPECT_TRUE(file.good()) << name;
  return Json::parse(file);
}

double LogSumExp(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float x : logits) sum += std::exp(x - largest);
  return largest + std::log(sum);
}

size_t ArgMax(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void CheckPositions(const Json& input, const std::vector<float>& logits, size_t vocab, double tolerance) {
  const std::vector<int32_t> tokens = input["tokens"];
  ASSERT_EQ(logits.size(), tokens.size() * vocab);
  for (size_t t = 0; t < tokens.size(); ++t) {
    const std::span<const float> row = std::span(logits).subspan(t * vocab, vocab);
    const double logsumexp = LogSumExp(row);
    EXPECT_EQ(ArgMax(row), size_t{input["argmax"][t]}) << "position " << t;
    if (t + 1 == tokens.size()) continue;
    const double expected = double{input["next_token_logit"][t]} - double{input["logsumexp"][t]};
    EXPECT_NEAR(row[static_cast<size_t>(tokens[t + 1])] - logsumexp, expected, tolerance) << "position " << t;
  }
  const std::span<const float> last = std::span(logits).subspan(logits.size() - vocab);
  const double logsumexp = LogSumExp(last), expected = input["logsumexp"].back();
  for (size_t i = 0; i < vocab; ++i) {
    EXPECT_NEAR(last[i] - logsumexp, double{input["last_logits"][i]} - expected, tolerance) << "token " << i;
  }
}

void CheckGreedy(const Json& input, LoadedModel& model) {
  const std::vector<int32_t> tokens = input["tokens"], expected = input["greedy"];
  Sequence sequence(&model.pages());
  std::vector<float> logits = model.Step(sequence, tokens, Outputs::kLast);
  std::vector<int32_t> ids;
  while (ids.size() < expected.size()) {
    ASSERT_EQ(logits.size(), model.vocab());
    ids.push_back(static_cast<int32_t>(ArgMax(logits)));
    logits = model.Step(sequence, {&ids.back(), 1}, Outputs::kLast);
  }
  EXPECT_EQ(ids, expected);
}

class GoldenTest : public testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenTest, AgreesWithTheReferenceImplementation) {
  const GoldenCase& c = GetParam();
  LoadedModel model(c.name, {.exact = c.exact});
  const Json golden = ReadGolden(c.name);
  ASSERT_GE(golden["inputs"].size(), 1u);
  for (const Json& input : golden["inputs"]) {
    CheckPositions(input, model.Logits(input["tokens"], 64), model.vocab(), c.tolerance);
    CheckGreedy(input, model);
  }
}

// The scalar pass beside the fast path's logits of one prompt.
class ScalarPass {
 public:
  ScalarPass(const LoadedModel& model, reference::SeenGroups& seen, std::vector<int32_t> tokens,
             std::vector<float> logits)
      : source_(model.source()), seen_(seen), tokens_(std::move(tokens)), logits_(std::move(logits)) {}

  // Positions from the first one on whose logits agree, with the ties in `flipped` broken the other way; ties met.
  struct Agreement {
    size_t positions, ties, unseen;
  };
  Agreement Try(const std::set<size_t>& flipped) const {
    const ProductKernel& half = GetProductKernel(TestVariant(), Format::kF16);
    reference::Rounding rounding = {.seen = &seen_,
                                    .seen_margin = kSeenMargin,
                                    .halves_as_bf16 = half.arithmetic == Arithmetic::kBF16,
                                    .tie_margin = kTieMargin,
                                    .flipped = flipped};
    const auto expected = reference::Forward(source_.metadata(), source_, tokens_, &rounding);
    EXPECT_TRUE(expected.ok()) << expected.status().ToString();
    EXPECT_EQ(logits_.size(), expected->size());
    size_t i = 0;
    while (i < logits_.size() && std::fabs(logits_[i] - (*expected)[i]) <= kTolerance) ++i;
    return {i * tokens_.size() / logits_.size(), rounding.ties, rounding.unseen};
  }

  // A tie moves its own position and later ones, so the right way for each is found from the first position on.
  bool AgreesForSomeTies() const {
    std::set<size_t> flipped;
    Agreement best = Try(flipped);
    while (best.positions < tokens_.size()) {
      const Agreement before = best;
      size_t flip = 0;
      for (size_t tie = 0; tie < before.ties; ++tie) {
        std::set<size_t> with = flipped;
        if (!with.insert(tie).second) continue;
        const Agreement tried = Try(with);
        if (tried.positions > best.positions) {
          best = tried;
          flip = tie;
        }
      }
      if (best.positions == before.positions) return false;
      flipped.insert(flip);
    }
    EXPECT_EQ(best.unseen, 0u) << "activations that the fast path did not have";
    EXPECT_LE(flipped.size(), 2u) << "of " << best.ties << " ties: too many to be chance";
    return true;
  }

  static constexpr double kTolerance = 1e-3;
  // Float sums of a few hundred terms differ from double ones by less than 2^-20 of a value that is rounded to bf16, 128 to 255 steps.
  static constexpr double kTieMargin = 127.0 / (1 << 20);
  // Of the row's greatest, with room for what attention and the sum of the layers before add.
  static constexpr double kSeenMargin = 1.0 / (1 << 18);

 private:
  const GgufSource& source_;
  reference::SeenGroups& seen_;
  std::vector<int32_t> tokens_;
  std::vector<float> logits_;
};

TEST_P(GoldenTest, FastPathAgreesWithTheScalarPass) {
  const GoldenCase& c = GetParam();
  const std::string name = c.name;
  if (kSlowed && (name == "llama-iquant" || name == "llama-lowbit")) GTEST_SKIP() << "bitnet-tq2 is of the same kind";
  Recorder recorder(TestVariant());
  LoadedModel model(c.name, {.products = recorder.table()});
  const std::vector<int32_t> tokens = ReadGolden(c.name)["inputs"][0]["tokens"];
  const std::vector<float> logits = model.Logits(tokens, 64);
  const ScalarPass pass(model, recorder.seen(), tokens, logits);
  EXPECT_TRUE(pass.AgreesForSomeTies()) << "as met, " << pass.Try({}).positions << " positions agree, there are "
                                        << pass.Try({}).ties << " ties";
}

INSTANTIATE_TEST_SUITE_P(Fixtures, GoldenTest, testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace moonlit::test
