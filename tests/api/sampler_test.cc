// SPDX-License-Identifier: Apache-2.0
// Samplers as an application sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/api/moonlit.hpp"

namespace moonlit::api {
namespace {

using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class SamplerApi : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto options = Model::Options();
    options.max_sessions = 2;
    auto model = Model::Load("poet", options);
    ASSERT_TRUE(model) << model.error().message;
    model_ = new Model(std::move(*model));
    n_vocab_ = model_->info().n_vocab;
  }
  static void TearDownTestSuite() { delete model_; }

  static Sampler New(const std::vector<moonlit_sampler_step>& steps, uint64_t seed = 1) {
    auto sampler = model_->NewSampler(seed);
    EXPECT_TRUE(sampler) << sampler.error().message;
    for (const moonlit_sampler_step& step : steps) {
      const Error error = sampler->Append(step);
      EXPECT_EQ(error.code, MOONLIT_OK) << error.message;
    }
    return std::move(*sampler);
  }
  static moonlit_sampler_step Step(moonlit_sampler_kind kind) { return Sampler::Step(kind); }

  // The higher the id, the likelier.
  static std::vector<float> Logits() {
    std::vector<float> logits(n_vocab_);
    for (size_t i = 0; i < n_vocab_; ++i) logits[i] = static_cast<float>(i) / 64;
    return logits;
  }

  static std::string Generate(moonlit_generate_options options) {
    auto session = model_->NewSession();
    EXPECT_TRUE(session) << session.error().message;
    auto ids = model_->Tokenize("春江潮水", MOONLIT_ADD_SPECIAL);
    options.max_tokens = 30;
    options.ignore_end = 1;
    std::string text;
    auto result = session->Generate(*ids, options, [&](std::string_view piece) {
      text += piece;
      return true;
    });
    EXPECT_TRUE(result) << result.error().message;
    return text;
  }
  static moonlit_generate_options Options() {
    moonlit_generate_options options;
    moonlit_generate_options_init(&options, sizeof options);
    return options;
  }

  static Model* model_;
  static size_t n_vocab_;
};
Model* SamplerApi::model_ = nullptr;
size_t SamplerApi::n_vocab_ = 0;

TEST_F(SamplerApi, TheFieldsAndTheChainTheyStandForSayTheSame) {
  moonlit_sampler_step penalties = Step(MOONLIT_SAMPLER_PENALTIES);
  penalties.repeat_penalty = 1.2f;
  Sampler sampler =
      New({penalties, Step(MOONLIT_SAMPLER_DRY), Step(MOONLIT_SAMPLER_TOP_N_SIGMA), Step(MOONLIT_SAMPLER_TOP_K),
           Step(MOONLIT_SAMPLER_TYPICAL), Step(MOONLIT_SAMPLER_TOP_P), Step(MOONLIT_SAMPLER_MIN_P),
           Step(MOONLIT_SAMPLER_XTC), Step(MOONLIT_SAMPLER_TEMPERATURE), Step(MOONLIT_SAMPLER_DRAW)},
          77);
  moonlit_generate_options fields = Options(), chain = Options();
  fields.repeat_penalty = 1.2f;
  fields.seed = 77;
  chain.sampler = sampler.handle();
  const std::string text = Generate(fields);
  EXPECT_EQ(Generate(chain), text);
  EXPECT_NE(Generate(chain), text) << "it goes on from where it is";
  EXPECT_EQ(sampler.Reset(77).code, MOONLIT_OK);
  EXPECT_EQ(Generate(chain), text);
}

// A caller that was compiled before the field existed.
TEST_F(SamplerApi, AShorterStructHasNoSampler) {
  moonlit_generate_options options = Options();
  options.size = offsetof(moonlit_generate_options, sampler);
  options.sampler = reinterpret_cast<moonlit_sampler*>(1);
  options.temperature = 0;
  EXPECT_FALSE(Generate(options).empty());
}

// Another thread cancels while the chain runs: the step before the grammar has it do so, and waits for it. What comes behind the grammar is
// not reached, no random number is used, and the place in the grammar is kept.
TEST_F(SamplerApi, AnyoneMayCancelAGrammar) {
  auto grammar = model_->NewGrammar("root ::= [月光]{3} \"，\"");
  ASSERT_TRUE(grammar) << grammar.error().message;
  moonlit_sampler_step step = Step(MOONLIT_SAMPLER_GRAMMAR);
  step.grammar = grammar->handle();
  bool cancels = false;
  size_t begun = 0, behind = 0;
  Sampler sampler = New({}), plain = New({});
  const auto append_all = [&](Sampler& to, const std::function<size_t(std::span<moonlit_token_logit>)>& first) {
    ASSERT_EQ(to.AppendCustom(first).code, MOONLIT_OK);
    ASSERT_EQ(to.Append(step).code, MOONLIT_OK);
    ASSERT_EQ(to.AppendCustom([&](std::span<moonlit_token_logit> tokens) {
                  ++behind;
                  return tokens.size();
                }).code,
              MOONLIT_OK);
    ASSERT_EQ(to.Append(MOONLIT_SAMPLER_DRAW).code, MOONLIT_OK);
  };
  append_all(plain, [](std::span<moonlit_token_logit> tokens) { return tokens.size(); });
  append_all(sampler, [&](std::span<moonlit_token_logit> tokens) {
    ++begun;
    if (cancels) std::thread([&] { sampler.Cancel(); }).join();
    return tokens.size();
  });
  const std::vector<float> logits(n_vocab_, 0.0f);
  for (int i = 0; i < 4; ++i) {
    begun = behind = 0;
    cancels = true;
    for (size_t tries = 1; tries < 3; ++tries) {
      auto none = sampler.Apply(logits);
      ASSERT_FALSE(none);
      EXPECT_EQ(none.error().code, MOONLIT_CANCELLED) << none.error().message;
      EXPECT_THAT(none.error().message, HasSubstr("step 2 (grammar)"));
      EXPECT_EQ(begun, tries);
      EXPECT_EQ(behind, 0u);
    }
    cancels = false;
    sampler.Cancel();  // nothing runs
    auto id = sampler.Apply(logits), expected = plain.Apply(logits);
    ASSERT_TRUE(id) << id.error().message;
    ASSERT_TRUE(expected) << expected.error().message;
    EXPECT_EQ(*id, *expected);
    EXPECT_EQ(sampler.Accept(*id).code, MOONLIT_OK);
    EXPECT_EQ(plain.Accept(*id).code, MOONLIT_OK);
  }
}

TEST_F(SamplerApi, AGrammarIsAStep) {
  auto grammar = model_->NewGrammar("root ::= [月光]{3} \"，\" (\"山\" | \"水\") \"。\"");
  ASSERT_TRUE(grammar) << grammar.error().message;
  moonlit_sampler_step step = Step(MOONLIT_SAMPLER_GRAMMAR);
  step.grammar = grammar->handle();
  Sampler sampler = New({step, Step(MOONLIT_SAMPLER_TOP_P), Step(MOONLIT_SAMPLER_DRAW)}, 5);
  moonlit_generate_options both = Options(), fields = Options(), chain = Options();
  both.grammar = fields.grammar = grammar->handle();
  both.sampler = chain.sampler = sampler.handle();
  auto session = model_->NewSession();
  ASSERT_TRUE(session);
  const int32_t prompt[] = {1};
  auto refused = session->Generate(prompt, both, [](std::string_view) { return true; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(refused.error().message, HasSubstr("make the grammar a step"));
  fields.top_k = 0;
  fields.min_p = 0;
  fields.temperature = 1;
  fields.seed = 5;
  const std::string text = Generate(fields);
  EXPECT_EQ(text.size(), 3u * 6) << text;
  *grammar = Grammar(nullptr);  // the step has what it needs
  EXPECT_EQ(Generate(chain), text);
}

// Neither its history nor that nothing was chosen yet.
TEST_F(SamplerApi, AGenerationThatFailsLeavesItAsItIs) {
  moonlit_sampler_step penalties = Step(MOONLIT_SAMPLER_PENALTIES);
  penalties.presence_penalty = 100;
  Sampler sampler = New({penalties});
  auto session = model_->NewSession();
  ASSERT_TRUE(session) << session.error().message;
  const std::vector<int32_t> held = {20, 21, 22}, outside = {1 << 20}, long_one(model_->info().n_ctx, 20);
  ASSERT_EQ(session->Eval(held, MOONLIT_OUTPUT_NONE, {}).code, MOONLIT_OK);
  const char* const stops[] = {""};
  const auto fail = [&](std::span<const int32_t> prompt, moonlit_code code, size_t stop_count = 0) {
    moonlit_generate_options options = Options();
    options.sampler = sampler.handle();
    options.stop = stops;
    options.stop_count = stop_count;
    auto result = session->Generate(prompt, options, {});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, code) << result.error().message;
  };
  const auto fail_in_all_ways = [&] {
    fail({}, MOONLIT_INVALID_ARGUMENT);
    fail(held, MOONLIT_INVALID_ARGUMENT, 1);
    fail(outside, MOONLIT_INVALID_ARGUMENT);
    fail(long_one, MOONLIT_EXHAUSTED);
  };
  fail_in_all_ways();
  EXPECT_EQ(sampler.Append(MOONLIT_SAMPLER_GREEDY).code, MOONLIT_OK) << "nothing was chosen or accepted yet";
  const auto top = static_cast<int32_t>(n_vocab_) - 1;
  ASSERT_EQ(sampler.Accept(top).code, MOONLIT_OK);
  fail_in_all_ways();
  auto id = sampler.Apply(Logits());
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_EQ(*id, top - 1) << "the penalty still knows what was accepted";
}

TEST_F(SamplerApi, ModelsAreNotMixed) {
  auto options = Model::Options();
  options.vocab_only = 1;
  auto other = Model::Load("poet", options);
  ASSERT_TRUE(other);
  auto sampler = other->NewSampler(1);
  ASSERT_TRUE(sampler);
  EXPECT_EQ(sampler->Append(MOONLIT_SAMPLER_GREEDY).code, MOONLIT_OK);
  auto session = model_->NewSession();
  ASSERT_TRUE(session);
  moonlit_generate_options generate = Options();
  generate.sampler = sampler->handle();
  const int32_t prompt[] = {1};
  auto result = session->Generate(prompt, generate, [](std::string_view) { return true; });
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("another model"));
  auto grammar = other->NewGrammar("root ::= .*");
  ASSERT_TRUE(grammar);
  moonlit_sampler_step step = Step(MOONLIT_SAMPLER_GRAMMAR);
  step.grammar = grammar->handle();
  EXPECT_THAT(New({}).Append(step).message, HasSubstr("step 1 (grammar): the grammar was made for another model"));
  // By itself a model without weights samples as well.
  EXPECT_EQ(*sampler->Apply(Logits()), static_cast<int32_t>(n_vocab_) - 1);
}

TEST_F(SamplerApi, FaultsNameTheStepAndTheField) {
  const auto expect = [&](const moonlit_sampler_step& step, const char* message) {
    Sampler sampler = New({Step(MOONLIT_SAMPLER_TOP_K)});
    const Error error = sampler.Append(step);
    EXPECT_EQ(error.code, MOONLIT_INVALID_ARGUMENT) << message;
    EXPECT_THAT(error.message, HasSubstr(message));
    EXPECT_EQ(sampler.Append(MOONLIT_SAMPLER_GREEDY).code, MOONLIT_OK) << "as if it had not been";
  };
  const auto with = [&](moonlit_sampler_kind kind, auto set) {
    moonlit_sampler_step step = Step(kind);
    set(step);
    return step;
  };
  for (const int32_t kind : {0, -1, 17, INT32_MAX, INT32_MIN}) {
    moonlit_sampler_step step = Step(MOONLIT_SAMPLER_DRAW);
    step.kind = kind;
    expect(step, ("kind is " + std::to_string(kind)).c_str());
  }
  expect(with(MOONLIT_SAMPLER_TOP_K, [](auto& s) { s.top_k = -1; }), "step 2 (top-k): top_k is -1, expected 0 (off)");
  expect(with(MOONLIT_SAMPLER_TYPICAL, [](auto& s) { s.typical_p = kNan; }), "step 2 (typical): typical_p is nan");
  expect(with(MOONLIT_SAMPLER_PENALTIES, [](auto& s) { s.penalty_last_n = -2; }), "penalty_last_n is -2, expected -1");
  expect(with(MOONLIT_SAMPLER_PENALTIES, [](auto& s) { s.penalty_last_n = INT32_MAX; }),
         "is 2147483647, expected 0 (off)");
  expect(with(MOONLIT_SAMPLER_DRY, [](auto& s) { s.dry_allowed_length = -1; }), "dry_allowed_length is -1");
  expect(with(MOONLIT_SAMPLER_DRY, [](auto& s) { s.dry_last_n = INT32_MIN; }), "dry_last_n is");
  const char* const breakers[] = {"a", "", nullptr};
  expect(with(MOONLIT_SAMPLER_DRY, [&](auto& s) { s.dry_breakers = breakers, s.dry_breaker_count = 2; }),
         "dry_breakers[1] has 0");
  expect(with(MOONLIT_SAMPLER_DRY, [&](auto& s) { s.dry_breakers = breakers, s.dry_breaker_count = 3; }),
         "dry_breakers[2] is NULL");
  expect(with(MOONLIT_SAMPLER_DRY, [&](auto& s) { s.dry_breakers = nullptr; }), "dry_breakers[0] is NULL");
  expect(with(MOONLIT_SAMPLER_LOGIT_BIAS, [&](auto& s) { s.bias_count = 3; }), "biases is NULL, but bias_count 3");
  const moonlit_token_logit one = {1, 1};
  expect(with(MOONLIT_SAMPLER_LOGIT_BIAS, [&](auto& s) { s.biases = &one, s.bias_count = SIZE_MAX; }), "bias_count is");
  expect(with(MOONLIT_SAMPLER_DRY, [&](auto& s) { s.dry_breaker_count = SIZE_MAX; }), "dry_breaker_count is");
  for (const int32_t id : {-1, static_cast<int32_t>(n_vocab_), INT32_MAX}) {
    const moonlit_token_logit bias = {id, 1};
    expect(with(MOONLIT_SAMPLER_LOGIT_BIAS, [&](auto& s) { s.biases = &bias, s.bias_count = 1; }),
           ("bias of token " + std::to_string(id)).c_str());
  }
  expect(Step(MOONLIT_SAMPLER_GRAMMAR), "grammar is NULL");
  expect(Step(MOONLIT_SAMPLER_CUSTOM), "step 2 (custom): apply is NULL");
  Sampler chosen = New({Step(MOONLIT_SAMPLER_DRAW)});
  EXPECT_THAT(chosen.Append(MOONLIT_SAMPLER_TOP_K).message, HasSubstr("draw chooses, so no step may follow it"));
}

TEST_F(SamplerApi, LogitsAndIdsAreChecked) {
  Sampler sampler = New({Step(MOONLIT_SAMPLER_DRAW)}), same = New({Step(MOONLIT_SAMPLER_DRAW)});
  const std::vector<float> good = Logits();
  EXPECT_EQ(sampler.Apply(std::span(good).first(n_vocab_ - 1)).error().code, MOONLIT_INVALID_ARGUMENT);
  EXPECT_EQ(sampler.Apply({}).error().code, MOONLIT_INVALID_ARGUMENT);
  for (const float value : {kNan, kInf}) {
    std::vector<float> bad = good;
    bad[3] = value;
    EXPECT_EQ(sampler.Apply(bad).error().code, MOONLIT_INTERNAL);
    EXPECT_THAT(sampler.Apply(bad).error().message, HasSubstr("token 3"));
  }
  EXPECT_EQ(sampler.Apply(std::vector<float>(n_vocab_, -kInf)).error().code, MOONLIT_INTERNAL);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(*sampler.Apply(good), *same.Apply(good)) << "faults take no random number";
  const auto past = static_cast<int32_t>(n_vocab_);
  EXPECT_EQ(sampler.Accept(past).code, MOONLIT_INVALID_ARGUMENT);
  EXPECT_EQ(sampler.Accept(-1).code, MOONLIT_INVALID_ARGUMENT);
  EXPECT_EQ(sampler.AcceptPrompt(std::vector<int32_t>{1, past}).code, MOONLIT_INVALID_ARGUMENT);
  EXPECT_EQ(sampler.AcceptPrompt(std::vector<int32_t>{1, MOONLIT_EMBEDDING_ROW}).code, MOONLIT_OK);
  EXPECT_EQ(sampler.AcceptPrompt({}).code, MOONLIT_OK);
}

TEST_F(SamplerApi, ACustomStepSeesChangesAndRemoves) {
  const auto best = static_cast<int32_t>(n_vocab_) - 1;
  auto sampler = model_->NewSampler(1);
  size_t seen = 0;
  EXPECT_EQ(sampler
                ->AppendCustom([&](std::span<moonlit_token_logit> tokens) {
                  seen = tokens.size();
                  for (moonlit_token_logit& token : tokens) {
                    if (token.id == 7) token.logit += 1000;
                    if (token.id == best) token.logit = -kInf;
                  }
                  return tokens.size();
                })
                .code,
            MOONLIT_OK);
  EXPECT_EQ(sampler->Append(MOONLIT_SAMPLER_GREEDY).code, MOONLIT_OK);
  EXPECT_EQ(*sampler->Apply(Logits()), 7);
  EXPECT_EQ(seen, n_vocab_);
  auto front = model_->NewSampler(1);
  EXPECT_EQ(front
                ->AppendCustom([&](std::span<moonlit_token_logit> tokens) {
                  std::swap(tokens[0], tokens[5]);
                  return size_t{1};
                })
                .code,
            MOONLIT_OK);
  EXPECT_EQ(front->Append(MOONLIT_SAMPLER_GREEDY).code, MOONLIT_OK);
  EXPECT_EQ(*front->Apply(Logits()), 5);
}

TEST_F(SamplerApi, ACustomStepSeesTheLogitsOverTheTemperature) {
  moonlit_sampler_step temperature = Step(MOONLIT_SAMPLER_TEMPERATURE);
  temperature.temperature = 0.5f;
  Sampler sampler = New({temperature});
  float seen = 0;
  EXPECT_EQ(sampler
                .AppendCustom([&](std::span<moonlit_token_logit> tokens) {
                  for (const moonlit_token_logit& token : tokens) seen = token.id == 64 ? token.logit : seen;
                  return tokens.size();
                })
                .code,
            MOONLIT_OK);
  EXPECT_EQ(sampler.Append(MOONLIT_SAMPLER_GREEDY).code, MOONLIT_OK);
  EXPECT_TRUE(sampler.Apply(Logits()));
  EXPECT_EQ(seen, 2.0f);
}

TEST_F(SamplerApi, ACustomStepCanNotLeaveTheList) {
  const auto expect = [&](moonlit_code code, const char* message,
                          std::function<size_t(std::span<moonlit_token_logit>)> step) {
    moonlit_sampler_step top_k = Step(MOONLIT_SAMPLER_TOP_K);
    top_k.top_k = 3;
    Sampler sampler = New({top_k});
    EXPECT_EQ(sampler.AppendCustom(std::move(step)).code, MOONLIT_OK);
    EXPECT_EQ(sampler.Append(MOONLIT_SAMPLER_DRAW).code, MOONLIT_OK);
    auto id = sampler.Apply(Logits());
    ASSERT_FALSE(id) << message;
    EXPECT_EQ(id.error().code, code) << message;
    EXPECT_THAT(id.error().message, HasSubstr(message));
    EXPECT_THAT(id.error().message, HasSubstr("step 2 (custom)"));
  };
  expect(MOONLIT_CANCELLED, "kept no token", [](auto) { return size_t{0}; });
  expect(MOONLIT_CANCELLED, "kept no token", [](auto tokens) {
    for (auto& token : tokens) token.logit = -kInf;
    return tokens.size();
  });
  expect(MOONLIT_INVALID_ARGUMENT, "keeps 4 tokens of 3", [](auto) { return size_t{4}; });
  expect(MOONLIT_INVALID_ARGUMENT, "tokens of 3", [](auto) { return SIZE_MAX; });
  for (const int32_t id : {0, -1, INT32_MAX}) {
    expect(MOONLIT_INVALID_ARGUMENT, "did not get", [id](auto tokens) {
      tokens[1].id = id;
      return tokens.size();
    });
  }
  expect(MOONLIT_INVALID_ARGUMENT, "given already", [](auto tokens) {
    tokens[1] = tokens[0];
    return tokens.size();
  });
  for (const float logit : {kNan, kInf}) {
    expect(MOONLIT_INVALID_ARGUMENT, "expected a finite number or -inf", [logit](auto tokens) {
      tokens[1].logit = logit;
      return tokens.size();
    });
  }
}

struct Counts {
  int accepted = 0, reset = 0, cloned = 0, freed = 0;
};

moonlit_sampler_step Counting(Counts* counts) {
  moonlit_sampler_step step = Sampler::Step(MOONLIT_SAMPLER_CUSTOM);
  step.user = counts;
  step.apply = [](void*, moonlit_token_logit*, size_t count) { return count; };
  step.accept = [](void* user, int32_t) { ++static_cast<Counts*>(user)->accepted; };
  step.reset = [](void* user) { ++static_cast<Counts*>(user)->reset; };
  step.free_user = [](void* user) { ++static_cast<Counts*>(user)->freed; };
  return step;
}

TEST_F(SamplerApi, ACustomStepsUserIsTheSamplersAndIsFreedOnce) {
  Counts counts;
  moonlit_sampler_step step = Counting(&counts);
  {
    Sampler sampler = New({step, Step(MOONLIT_SAMPLER_GREEDY)});
    EXPECT_EQ(sampler.AcceptPrompt(std::vector<int32_t>{1, 2}).code, MOONLIT_OK);
    EXPECT_EQ(sampler.Accept(3).code, MOONLIT_OK);
    EXPECT_EQ(counts.accepted, 3);
    EXPECT_EQ(sampler.Reset(1).code, MOONLIT_OK);
    EXPECT_EQ(counts.reset, 1);
    auto clone = sampler.Clone();
    ASSERT_FALSE(clone);
    EXPECT_EQ(clone.error().code, MOONLIT_UNSUPPORTED);
    EXPECT_THAT(clone.error().message, HasSubstr("step 1 (custom)"));
    EXPECT_EQ(sampler.Append(step).code, MOONLIT_INVALID_ARGUMENT);
    EXPECT_EQ(counts.freed, 0) << "of the refused one nothing is taken";
  }
  EXPECT_EQ(counts.freed, 1);
  step.clone = [](const void* user) -> void* {
    auto* counts_of = static_cast<Counts*>(const_cast<void*>(user));
    return ++counts_of->cloned == 1 ? counts_of : nullptr;
  };
  counts = {};
  {
    Sampler sampler = New({step, Step(MOONLIT_SAMPLER_GREEDY)});
    auto clone = sampler.Clone();
    ASSERT_TRUE(clone) << clone.error().message;
    EXPECT_EQ(sampler.Clone().error().code, MOONLIT_OUT_OF_MEMORY);
  }
  EXPECT_EQ(counts.freed, 2);
}

// Nobody gets in while a call is running, not even its own callbacks; the sampler is none the worse for it.
TEST_F(SamplerApi, ASecondCallAtOnceIsBusy) {
  std::optional<Sampler> sampler = New({});
  const std::vector<float> logits = Logits();
  std::vector<moonlit_code> codes;
  EXPECT_EQ(sampler
                ->AppendCustom([&](std::span<moonlit_token_logit> tokens) {
                  codes.push_back(sampler->Apply(logits).error().code);
                  codes.push_back(sampler->Accept(1).code);
                  codes.push_back(sampler->AcceptPrompt({}).code);
                  codes.push_back(sampler->Reset(1).code);
                  codes.push_back(sampler->Clone().error().code);
                  codes.push_back(sampler->Append(MOONLIT_SAMPLER_DRAW).code);
                  std::thread([&] { codes.push_back(sampler->Accept(1).code); }).join();
                  return tokens.size();
                })
                .code,
            MOONLIT_OK);
  EXPECT_EQ(sampler->Append(MOONLIT_SAMPLER_GREEDY).code, MOONLIT_OK);
  EXPECT_TRUE(sampler->Apply(logits));
  EXPECT_THAT(codes, ::testing::ElementsAreArray(std::vector<moonlit_code>(7, MOONLIT_BUSY)));
  EXPECT_EQ(sampler->Accept(1).code, MOONLIT_OK);
}

// DRY and penalties look back at what the session holds, and at the prompt, whoever read it.
TEST_F(SamplerApi, TheHistoryIsTheSessions) {
  moonlit_sampler_step penalties = Step(MOONLIT_SAMPLER_PENALTIES);
  penalties.presence_penalty = 100;
  penalties.penalty_last_n = -1;
  Sampler sampler = New({penalties, Step(MOONLIT_SAMPLER_GREEDY)});
  auto session = model_->NewSession();
  ASSERT_TRUE(session);
  auto ids = model_->Tokenize("床前明月光，疑是地上霜。举头望明月", MOONLIT_ADD_SPECIAL);
  ASSERT_EQ(session->Eval(*ids, MOONLIT_OUTPUT_NONE, {}).code, MOONLIT_OK);
  EXPECT_EQ(sampler.AcceptPrompt(std::vector<int32_t>{5, 6, 7}).code, MOONLIT_OK);  // replaced
  moonlit_generate_options options = Options();
  options.sampler = sampler.handle();
  options.max_tokens = 12;
  options.ignore_end = 1;
  const std::vector<int32_t> prompt = {ids->back()};
  ASSERT_TRUE(session->Generate(prompt, options, [](std::string_view) { return true; }));
  std::vector<int32_t> held = session->Tokens();
  ASSERT_EQ(held.size(), ids->size() + 12);
  std::vector<int32_t> chosen(held.end() - 11, held.end());
  for (const int32_t id : chosen) EXPECT_EQ(std::count(ids->begin(), ids->end(), id), 0) << id;
  std::sort(chosen.begin(), chosen.end());
  EXPECT_EQ(std::unique(chosen.begin(), chosen.end()), chosen.end());
}

}  // namespace
}  // namespace moonlit::api
