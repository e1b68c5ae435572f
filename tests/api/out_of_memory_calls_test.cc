// SPDX-License-Identifier: Apache-2.0
// Memory that runs out in calls on a session and in samplers: a code, nothing lost, and what an application lent is freed once.
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

#include "runtime/api/moonlit.hpp"
#include "runtime/weights/gguf_source.h"
#include "tests/api/fail_at_each.h"
#include "tests/models/random_adapter.h"
#include "tests/support/failing_new.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

const std::string kModel = MOONLIT_SOURCE_DIR "/tests/data/golden/llama/model.gguf";

std::vector<int32_t> Ids(size_t count) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>((3 + i * 17) % 300);
  return ids;
}

moonlit_code Eval(moonlit_session* session, const std::vector<int32_t>& ids, moonlit_error* error) {
  return moonlit_eval(session, ids.data(), ids.size(), MOONLIT_OUTPUT_LAST, nullptr, nullptr, error);
}

class OutOfMemoryInCalls : public testing::TestWithParam<Failing> {
 protected:
  void SetUp() override {
    moonlit_model_options options = api::Model::Options();
    options.threads = 2;
    options.n_ctx = 128;
    options.max_sessions = 2;
    options.chunk_tokens = 32;
    moonlit_error error = {};
    ASSERT_EQ(moonlit_model_load(kModel.c_str(), &options, &model_, &error), MOONLIT_OK) << error.message;
    ASSERT_EQ(moonlit_session_new(model_, &session_, &error), MOONLIT_OK) << error.message;
    info_.size = sizeof info_;
    moonlit_model_get_info(model_, &info_);
  }
  void TearDown() override {
    moonlit_session_free(session_);
    moonlit_model_free(model_);
  }
  moonlit_model* model_ = nullptr;
  moonlit_session* session_ = nullptr;
  moonlit_model_info info_ = {};
};

// A user of a custom step, who counts those that live.
struct User {
  User() { ++living; }
  User(const User&) { ++living; }
  ~User() { --living; }
  static inline int living = 0;
};

moonlit_sampler_step CustomStep() {
  moonlit_sampler_step step;
  moonlit_sampler_step_init(&step, sizeof step);
  step.kind = MOONLIT_SAMPLER_CUSTOM;
  step.apply = [](void*, moonlit_token_logit*, size_t count) { return count; };
  step.clone = [](const void* user) -> void* { return new (std::nothrow) User(*static_cast<const User*>(user)); };
  step.free_user = [](void* user) { delete static_cast<User*>(user); };
  return step;
}

// The step's user is the sampler's if the call succeeds, and stays the caller's if not.
moonlit_code AppendUser(moonlit_sampler* sampler, moonlit_error* error) {
  moonlit_sampler_step step = CustomStep();
  std::unique_ptr<User> user(new (std::nothrow) User);
  if (user == nullptr) {
    *error = {MOONLIT_OUT_OF_MEMORY, "the test's own"};
    return error->code;
  }
  step.user = user.get();
  const moonlit_code code = moonlit_sampler_append(sampler, &step, error);
  if (code == MOONLIT_OK) static_cast<void>(user.release());
  return code;
}

TEST_P(OutOfMemoryInCalls, ACustomStepsUserIsFreedOnce) {
  const std::vector<int32_t> prompt = Ids(3);
  FailAtEach(
      GetParam(), Leaves::kNothing,
      [&](moonlit_error* error) {
        moonlit_sampler* sampler = nullptr;
        moonlit_sampler* clone = nullptr;
        moonlit_code code = moonlit_sampler_new(model_, 1, &sampler, error);
        for (int i = 0; i < 3 && code == MOONLIT_OK; ++i) code = AppendUser(sampler, error);
        moonlit_sampler_step bias;
        moonlit_sampler_step_init(&bias, sizeof bias);
        const moonlit_token_logit biases[] = {{1, 2.0f}, {2, -1.0f}};
        bias.kind = MOONLIT_SAMPLER_LOGIT_BIAS, bias.biases = biases, bias.bias_count = 2;
        if (code == MOONLIT_OK) code = moonlit_sampler_append(sampler, &bias, error);
        if (code == MOONLIT_OK) code = moonlit_sampler_accept_prompt(sampler, prompt.data(), prompt.size(), error);
        if (code == MOONLIT_OK) code = moonlit_sampler_clone(sampler, &clone, error);
        moonlit_sampler_free(clone);
        moonlit_sampler_free(sampler);
        return code;
      },
      [](moonlit_code) { EXPECT_EQ(User::living, 0); });
}

// On an error no random number is used: what is chosen afterwards is what would have been chosen.
TEST_P(OutOfMemoryInCalls, ASamplersChoiceCanBeMadeAgain) {
  moonlit_error error = {};
  std::vector<float> logits(info_.n_vocab);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 17) / 4;
  const moonlit_sampler_kind kinds[] = {MOONLIT_SAMPLER_PENALTIES, MOONLIT_SAMPLER_DRY,   MOONLIT_SAMPLER_TYPICAL,
                                        MOONLIT_SAMPLER_TOP_K,     MOONLIT_SAMPLER_TOP_P, MOONLIT_SAMPLER_DRAW};
  const auto make = [&] {
    moonlit_sampler* sampler = nullptr;
    EXPECT_EQ(moonlit_sampler_new(model_, 7, &sampler, &error), MOONLIT_OK) << error.message;
    for (const moonlit_sampler_kind kind : kinds) {
      moonlit_sampler_step step = api::Sampler::Step(kind);
      step.dry_multiplier = 1, step.repeat_penalty = 1.5f, step.typical_p = 0.9f;
      EXPECT_EQ(moonlit_sampler_append(sampler, &step, &error), MOONLIT_OK) << error.message;
    }
    const std::vector<int32_t> prompt = Ids(20);
    EXPECT_EQ(moonlit_sampler_accept_prompt(sampler, prompt.data(), prompt.size(), &error), MOONLIT_OK);
    return sampler;
  };
  moonlit_sampler* untouched = make();
  int32_t expected = -1;
  ASSERT_EQ(moonlit_sampler_apply(untouched, logits.data(), logits.size(), &expected, &error), MOONLIT_OK);
  moonlit_sampler_free(untouched);
  bool failed = true;
  for (size_t n = 1; failed; ++n) {
    moonlit_sampler* sampler = make();
    int32_t id = -1;
    ArmNew(n, GetParam());
    moonlit_code code = moonlit_sampler_apply(sampler, logits.data(), logits.size(), &id, &error);
    failed = DisarmNew();
    ASSERT_EQ(code, failed ? MOONLIT_OUT_OF_MEMORY : MOONLIT_OK) << "call " << n << ": " << error.message;
    if (failed) code = moonlit_sampler_apply(sampler, logits.data(), logits.size(), &id, &error);
    EXPECT_EQ(code, MOONLIT_OK) << error.message;
    EXPECT_EQ(id, expected) << "call " << n;
    moonlit_sampler_free(sampler);
  }
}

// What the model keeps for other texts is kept by one of the first calls already.
TEST_P(OutOfMemoryInCalls, APerplexityLeavesTheSessionEmpty) {
  const std::vector<int32_t> ids = Ids(64);
  moonlit_perplexity_result result = {};
  result.size = sizeof result;
  FailAtEach(
      GetParam(), Leaves::kWhatOthersMayTake,
      [&](moonlit_error* error) {
        return moonlit_perplexity(session_, ids.data(), ids.size(), 32, nullptr, nullptr, &result, error);
      },
      [&](moonlit_code) { EXPECT_EQ(moonlit_session_length(session_), 0u); });
}

TEST_P(OutOfMemoryInCalls, AnEmbeddingLeavesTheSessionEmpty) {
  const std::vector<int32_t> ids = Ids(70);
  std::vector<float> vector(info_.n_embd);
  for (moonlit_session* session : {session_, static_cast<moonlit_session*>(nullptr)}) {
    moonlit_embed_options options = api::Model::EmbedOptions();
    options.session = session;
    options.pooling = MOONLIT_POOLING_MEAN;
    FailAtEach(GetParam(), Leaves::kWhatOthersMayTake, [&](moonlit_error* error) {
      size_t width = 0;
      const moonlit_code code =
          moonlit_embed(model_, ids.data(), ids.size(), &options, vector.data(), vector.size(), &width, error);
      EXPECT_EQ(moonlit_session_length(session_), 0u) << error->message;
      return code;
    });
  }
}

TEST_P(OutOfMemoryInCalls, AdaptersAreLoadedAndSet) {
  const TempFolder folder;
  const std::string path = folder.path() + "/adapter.gguf";
  auto source = GgufSource::Open(kModel);
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  RandomAdapter(*source.value(), 4, 8, 1).Write(path, "llama");
  const std::vector<int32_t> ids = Ids(5);
  FailAtEach(GetParam(), Leaves::kWhatOthersMayTake, [&](moonlit_error* error) {
    moonlit_adapter* adapter = nullptr;
    moonlit_session* session = nullptr;
    moonlit_code code = moonlit_adapter_load(model_, path.c_str(), &adapter, error);
    if (code == MOONLIT_OK) code = moonlit_session_new(model_, &session, error);
    if (code == MOONLIT_OK) code = moonlit_session_set_adapters(session, &adapter, nullptr, 1, error);
    if (code == MOONLIT_OK) code = Eval(session, ids, error);
    moonlit_session_free(session);
    moonlit_adapter_free(adapter);
    return code;
  });
}

TEST_P(OutOfMemoryInCalls, TapsAreSetAndShown) {
  const std::vector<int32_t> ids = Ids(5);
  moonlit_taps taps;
  moonlit_taps_init(&taps, sizeof taps);
  taps.residual = [](void*, const moonlit_tapped*) {};
  taps.attention = [](void*, const moonlit_tapped*) {};
  FailAtEach(GetParam(), Leaves::kWhatOthersMayTake, [&](moonlit_error* error) {
    moonlit_session* session = nullptr;
    moonlit_code code = moonlit_session_new(model_, &session, error);
    if (code == MOONLIT_OK) code = moonlit_session_set_taps(session, &taps, error);
    if (code == MOONLIT_OK) code = Eval(session, ids, error);
    moonlit_session_free(session);
    return code;
  });
}

// They could not say that there was none.
TEST_P(OutOfMemoryInCalls, FunctionsWithoutACodeTakeNoMemory) {
  moonlit_model_options model_options;
  moonlit_chat_options chat;
  moonlit_embed_options embed;
  moonlit_generate_options generate;
  moonlit_perplexity_options perplexity;
  moonlit_rows rows;
  moonlit_sampler_step step;
  moonlit_taps taps;
  moonlit_write_options write;
  moonlit_memory memory = {};
  memory.size = sizeof memory;
  moonlit_model_info info = {};
  info.size = sizeof info;
  int32_t ids[4];
  const auto used = [](const void*) {};
  ArmNew(1, GetParam());
  moonlit_model_options_init(&model_options, sizeof model_options);
  moonlit_chat_options_init(&chat, sizeof chat);
  moonlit_embed_options_init(&embed, sizeof embed);
  moonlit_generate_options_init(&generate, sizeof generate);
  moonlit_perplexity_options_init(&perplexity, sizeof perplexity);
  moonlit_rows_init(&rows, sizeof rows);
  moonlit_sampler_step_init(&step, sizeof step);
  moonlit_taps_init(&taps, sizeof taps);
  moonlit_write_options_init(&write, sizeof write);
  moonlit_model_memory(model_, &memory);
  moonlit_model_get_info(model_, &info);
  used(moonlit_version());
  used(moonlit_chat_template(model_));
  for (size_t i = 0; i < moonlit_model_metadata_count(model_); ++i) used(moonlit_model_metadata_key(model_, i));
  const int32_t special = moonlit_token_special(model_, MOONLIT_SPECIAL_BOS);
  static_cast<void>(moonlit_token_is_end(model_, special) + moonlit_token_begin(model_));
  const size_t length = moonlit_session_length(session_) + moonlit_session_tokens(session_, ids, 4);
  moonlit_session_cancel(session_);
  moonlit_remove_unfinished_files();
  EXPECT_FALSE(DisarmNew());
  EXPECT_EQ(special, 317);
  EXPECT_EQ(info.n_vocab, info_.n_vocab);
  EXPECT_GT(memory.weights, 0u);
  EXPECT_EQ(length, 0u);
}

INSTANTIATE_TEST_SUITE_P(Ways, OutOfMemoryInCalls, kFailings, kFailingName);

}  // namespace
}  // namespace moonlit::test
