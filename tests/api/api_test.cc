// SPDX-License-Identifier: Apache-2.0
// The C interface as an application sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/api/moonlit.h"

namespace {

using ::testing::HasSubstr;

class Api : public testing::Test {
 protected:
  void SetUp() override {
    moonlit_model_options options;
    moonlit_model_options_init(&options, sizeof options);
    options.n_ctx = 128;
    options.max_sessions = 2;
    ASSERT_EQ(moonlit_model_load("poet", &options, &model_, &error_), MOONLIT_OK) << error_.message;
    ASSERT_EQ(moonlit_session_new(model_, &session_, &error_), MOONLIT_OK) << error_.message;
  }
  void TearDown() override {
    moonlit_session_free(session_);
    moonlit_model_free(model_);
  }

  std::vector<int32_t> Ids(const std::string& text) {
    std::vector<int32_t> ids(64);
    size_t count = 0;
    EXPECT_EQ(moonlit_tokenize(model_, text.data(), text.size(), MOONLIT_ADD_SPECIAL, ids.data(), ids.size(), &count,
                               &error_),
              MOONLIT_OK);
    ids.resize(count);
    return ids;
  }

  moonlit_model* model_ = nullptr;
  moonlit_session* session_ = nullptr;
  moonlit_error error_ = {};
};

TEST_F(Api, TextComesOutInPieces) {
  moonlit_generate_options options;
  moonlit_generate_options_init(&options, sizeof options);
  options.temperature = 0;
  options.max_tokens = 6;
  std::string text;
  options.user = &text;
  options.text = [](void* user, const char* piece, size_t length) {
    static_cast<std::string*>(user)->append(piece, length);
    return 0;
  };
  const std::vector<int32_t> prompt = Ids("床前明月");
  moonlit_generate_result result = {};
  result.size = sizeof result;
  ASSERT_EQ(moonlit_generate(session_, prompt.data(), prompt.size(), &options, &result, &error_), MOONLIT_OK)
      << error_.message;
  EXPECT_EQ(text, "光，疑是地上");
  EXPECT_EQ(result.finish, MOONLIT_FINISH_LENGTH);
  EXPECT_EQ(result.prompt_tokens, prompt.size());
  EXPECT_EQ(result.generated_tokens, 6u);
}

TEST_F(Api, AModelTellsItsSizesAfterDefaults) {
  moonlit_model_info info = {};
  info.size = sizeof info;
  moonlit_model_get_info(model_, &info);
  EXPECT_EQ(info.chunk_tokens, 256u) << "no more than its sessions hold";
  EXPECT_EQ(info.page_tokens, 64u);
  moonlit_model_options options;
  moonlit_model_options_init(&options, sizeof options);
  options.chunk_tokens = 32, options.page_tokens = 128, options.threads = 1;
  moonlit_model* other = nullptr;
  ASSERT_EQ(moonlit_model_load("poet", &options, &other, &error_), MOONLIT_OK) << error_.message;
  moonlit_model_get_info(other, &info);
  EXPECT_EQ(info.chunk_tokens, 32u);
  EXPECT_EQ(info.page_tokens, 128u);
  moonlit_model_free(other);
}

// In one go, and in two, where the second begins with the token that the first left unread: the same tokens, drawn by one sampler.
TEST_F(Api, AGenerationGoesOnWithItsLastToken) {
  const auto generate = [&](const std::vector<size_t>& lengths) {
    EXPECT_EQ(moonlit_session_truncate(session_, 0, &error_), MOONLIT_OK);
    moonlit_sampler* sampler = nullptr;
    EXPECT_EQ(moonlit_sampler_new(model_, 7, &sampler, &error_), MOONLIT_OK);
    for (const moonlit_sampler_kind kind : {MOONLIT_SAMPLER_PENALTIES, MOONLIT_SAMPLER_DRAW}) {
      moonlit_sampler_step step;
      moonlit_sampler_step_init(&step, sizeof step);
      step.kind = kind;
      step.repeat_penalty = 1.3f;
      EXPECT_EQ(moonlit_sampler_append(sampler, &step, &error_), MOONLIT_OK);
    }
    std::vector<int32_t> prompt = Ids("床前明月"), tokens;
    for (const size_t length : lengths) {
      moonlit_generate_options options;
      moonlit_generate_options_init(&options, sizeof options);
      options.sampler = sampler;
      options.max_tokens = length;
      options.ignore_end = 1;
      options.user = &tokens;
      options.token = [](void* user, int32_t id) {
        static_cast<std::vector<int32_t>*>(user)->push_back(id);
        return 0;
      };
      moonlit_generate_result result = {};
      result.size = sizeof result;
      EXPECT_EQ(moonlit_generate(session_, prompt.data(), prompt.size(), &options, &result, &error_), MOONLIT_OK)
          << error_.message;
      EXPECT_EQ(result.last_token, tokens.empty() ? -1 : tokens.back());
      EXPECT_EQ(result.end_token, -1);
      prompt = {result.last_token};
    }
    moonlit_sampler_free(sampler);
    std::vector<int32_t> held(moonlit_session_length(session_)), all = Ids("床前明月");
    moonlit_session_tokens(session_, held.data(), held.size());
    held.push_back(prompt[0]);
    all.insert(all.end(), tokens.begin(), tokens.end());
    EXPECT_EQ(held, all) << "the session and the last token are the text";
    return tokens;
  };
  const std::vector<int32_t> whole = generate({20});
  EXPECT_EQ(whole.size(), 20u);
  EXPECT_EQ(generate({10, 10}), whole);
}

TEST_F(Api, ATokenEndsAGeneration) {
  const std::vector<int32_t> prompt = Ids("床前明月");
  moonlit_generate_options options;
  moonlit_generate_options_init(&options, sizeof options);
  options.temperature = 0;
  int left = 3;
  options.user = &left;
  options.token = [](void* user, int32_t) { return --*static_cast<int*>(user) == 0 ? 1 : 0; };
  moonlit_generate_result result = {};
  result.size = sizeof result;
  ASSERT_EQ(moonlit_generate(session_, prompt.data(), prompt.size(), &options, &result, &error_), MOONLIT_OK);
  EXPECT_EQ(result.finish, MOONLIT_FINISH_CANCELLED);
  EXPECT_EQ(result.generated_tokens, 3u);
  EXPECT_EQ(moonlit_session_length(session_), prompt.size() + 2);

  // Callers that were compiled before there were the fields.
  options.size = offsetof(moonlit_generate_options, token);
  options.max_tokens = 4;
  result.size = offsetof(moonlit_generate_result, last_token);
  result.last_token = result.end_token = 12345;
  ASSERT_EQ(moonlit_generate(session_, prompt.data(), prompt.size(), &options, &result, &error_), MOONLIT_OK);
  EXPECT_EQ(result.generated_tokens, 4u);
  EXPECT_EQ(result.last_token, 12345);
  EXPECT_EQ(result.end_token, 12345);
}

TEST_F(Api, TheEndTokenIsNamedAndNotRead) {
  const std::vector<int32_t> prompt = Ids("床前明月");
  moonlit_generate_options options;
  moonlit_generate_options_init(&options, sizeof options);
  options.temperature = 0;
  moonlit_generate_result result = {};
  result.size = sizeof result;
  ASSERT_EQ(moonlit_generate(session_, prompt.data(), prompt.size(), &options, &result, &error_), MOONLIT_OK);
  ASSERT_EQ(result.finish, MOONLIT_FINISH_END);
  EXPECT_NE(moonlit_token_is_end(model_, result.end_token), 0);
  EXPECT_EQ(result.last_token, -1);
  EXPECT_EQ(moonlit_session_length(session_), prompt.size() + result.generated_tokens);
}

TEST_F(Api, TruncatedSessionGivesTheSameLogits) {
  const std::vector<int32_t> ids = Ids("床前明月光");
  const auto keep = [](void* user, size_t, const float* logits, size_t n) {
    static_cast<std::vector<float>*>(user)->assign(logits, logits + n);
  };
  std::vector<float> first, again;
  ASSERT_EQ(moonlit_eval(session_, ids.data(), ids.size(), MOONLIT_OUTPUT_LAST, keep, &first, &error_), MOONLIT_OK);
  EXPECT_EQ(moonlit_session_length(session_), ids.size());
  ASSERT_EQ(moonlit_session_truncate(session_, ids.size() - 2, &error_), MOONLIT_OK);
  ASSERT_EQ(moonlit_eval(session_, ids.data() + ids.size() - 2, 2, MOONLIT_OUTPUT_LAST, keep, &again, &error_),
            MOONLIT_OK);
  ASSERT_FALSE(first.empty());
  ASSERT_EQ(first.size(), again.size());
  EXPECT_EQ(std::memcmp(first.data(), again.data(), first.size() * sizeof(float)), 0);
}

TEST_F(Api, AForkAndAFileHoldTheSamePast) {
  const std::vector<int32_t> ids = Ids("床前明月光");
  ASSERT_EQ(moonlit_eval(session_, ids.data(), ids.size(), MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error_), MOONLIT_OK);
  const std::string path = testing::TempDir() + "moonlit_api.session";
  ASSERT_EQ(moonlit_session_save(session_, path.c_str(), &error_), MOONLIT_OK) << error_.message;
  moonlit_session* fork = nullptr;
  ASSERT_EQ(moonlit_session_fork(session_, &fork, &error_), MOONLIT_OK) << error_.message;
  moonlit_session* none = nullptr;
  EXPECT_EQ(moonlit_session_fork(session_, &none, &error_), MOONLIT_EXHAUSTED);
  const auto keep = [](void* user, size_t, const float* logits, size_t n) {
    static_cast<std::vector<float>*>(user)->assign(logits, logits + n);
  };
  std::vector<float> of_fork, of_file, of_session;
  const int32_t next = ids[1];
  ASSERT_EQ(moonlit_eval(fork, &next, 1, MOONLIT_OUTPUT_LAST, keep, &of_fork, &error_), MOONLIT_OK);
  ASSERT_EQ(moonlit_session_load(fork, path.c_str(), 0, &error_), MOONLIT_OK) << error_.message;
  std::vector<int32_t> held(ids.size());
  EXPECT_EQ(moonlit_session_tokens(fork, nullptr, 0), ids.size());
  EXPECT_EQ(moonlit_session_tokens(fork, held.data(), held.size()), ids.size());
  EXPECT_EQ(held, ids);
  ASSERT_EQ(moonlit_eval(fork, &next, 1, MOONLIT_OUTPUT_LAST, keep, &of_file, &error_), MOONLIT_OK);
  ASSERT_EQ(moonlit_eval(session_, &next, 1, MOONLIT_OUTPUT_LAST, keep, &of_session, &error_), MOONLIT_OK);
  ASSERT_FALSE(of_session.empty());
  EXPECT_EQ(of_fork, of_session);
  EXPECT_EQ(of_file, of_session);
  EXPECT_EQ(moonlit_session_load(fork, "/no/such.session", 0, &error_), MOONLIT_NOT_FOUND);
  EXPECT_EQ(moonlit_session_length(fork), ids.size() + 1) << "as it was";
  moonlit_session_free(fork);
}

// Each takes more than half of the context.
TEST(ApiOfOneSession, AFileTakesThePlaceOfTheText) {
  moonlit_model_options options;
  moonlit_model_options_init(&options, sizeof options);
  options.n_ctx = 128;
  moonlit_error error = {};
  moonlit_model* model = nullptr;
  moonlit_session* session = nullptr;
  ASSERT_EQ(moonlit_model_load("poet", &options, &model, &error), MOONLIT_OK) << error.message;
  ASSERT_EQ(moonlit_session_new(model, &session, &error), MOONLIT_OK) << error.message;
  const std::vector<int32_t> saved(100, 300), other(100, 301);
  const std::string path = testing::TempDir() + "moonlit_api_room.session";
  ASSERT_EQ(moonlit_eval(session, saved.data(), 100, MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error), MOONLIT_OK);
  ASSERT_EQ(moonlit_session_save(session, path.c_str(), &error), MOONLIT_OK) << error.message;
  ASSERT_EQ(moonlit_session_truncate(session, 0, &error), MOONLIT_OK);
  ASSERT_EQ(moonlit_eval(session, other.data(), 100, MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error), MOONLIT_OK);
  EXPECT_EQ(moonlit_session_load(session, (path + ".none").c_str(), 0, &error), MOONLIT_NOT_FOUND);
  std::vector<int32_t> held(100);
  EXPECT_EQ(moonlit_session_tokens(session, held.data(), held.size()), 100u);
  EXPECT_EQ(held, other);
  ASSERT_EQ(moonlit_session_load(session, path.c_str(), 0, &error), MOONLIT_OK) << error.message;
  EXPECT_EQ(moonlit_session_tokens(session, held.data(), held.size()), 100u);
  EXPECT_EQ(held, saved);
  moonlit_session_free(session);
  moonlit_model_free(model);
}

TEST_F(Api, DroppedPagesMakeRoom) {
  const std::vector<int32_t> ids(128, Ids("月")[1]);
  ASSERT_EQ(moonlit_eval(session_, ids.data(), 128, MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error_), MOONLIT_OK);
  EXPECT_EQ(moonlit_eval(session_, ids.data(), 1, MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error_), MOONLIT_EXHAUSTED);
  EXPECT_EQ(moonlit_session_drop(session_, 0, 65, &error_), MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("multiples of 64"));
  EXPECT_EQ(moonlit_session_drop(session_, 64, 192, &error_), MOONLIT_INVALID_ARGUMENT);
  ASSERT_EQ(moonlit_session_drop(session_, 0, 64, &error_), MOONLIT_OK) << error_.message;
  EXPECT_EQ(moonlit_session_length(session_), 64u);
  EXPECT_EQ(moonlit_eval(session_, ids.data(), 64, MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error_), MOONLIT_OK);
}

TEST_F(Api, ARepeatedPromptSaysWhatWasReused) {
  const std::vector<int32_t> prompt(100, Ids("月")[1]);
  moonlit_generate_options options;
  moonlit_generate_options_init(&options, sizeof options);
  options.max_tokens = 1;
  for (const size_t reused : {0, 64}) {
    ASSERT_EQ(moonlit_session_truncate(session_, 0, &error_), MOONLIT_OK);
    moonlit_generate_result result = {};
    result.size = sizeof result;
    ASSERT_EQ(moonlit_generate(session_, prompt.data(), prompt.size(), &options, &result, &error_), MOONLIT_OK);
    EXPECT_EQ(result.prompt_tokens, 100u);
    EXPECT_EQ(result.reused_tokens, reused);
  }
}

TEST_F(Api, FaultsAreCodesAndSentences) {
  const std::vector<int32_t> too_many(200, 5);
  EXPECT_EQ(moonlit_eval(session_, too_many.data(), too_many.size(), MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error_),
            MOONLIT_EXHAUSTED);
  EXPECT_THAT(error_.message, HasSubstr("128"));
  EXPECT_EQ(moonlit_session_length(session_), 0u) << "a step that failed leaves the session as it was";
  const int32_t unknown = 1 << 20;
  EXPECT_EQ(moonlit_eval(session_, &unknown, 1, MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error_),
            MOONLIT_INVALID_ARGUMENT);
  moonlit_model* none = nullptr;
  EXPECT_EQ(moonlit_model_load("/no/such/model.gguf", nullptr, &none, &error_), MOONLIT_NOT_FOUND);
  EXPECT_THAT(error_.message, HasSubstr("/no/such/model.gguf"));
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(moonlit_model_load("/no/such/model.gguf", nullptr, &none, nullptr), MOONLIT_NOT_FOUND) << "no error struct";
}

TEST_F(Api, SessionsAreLimitedAndGivenBack) {
  moonlit_session* second = nullptr;
  moonlit_session* third = nullptr;
  ASSERT_EQ(moonlit_session_new(model_, &second, &error_), MOONLIT_OK);
  EXPECT_EQ(moonlit_session_new(model_, &third, &error_), MOONLIT_EXHAUSTED);
  moonlit_session_free(second);
  ASSERT_EQ(moonlit_session_new(model_, &third, &error_), MOONLIT_OK) << error_.message;
  moonlit_session_free(third);
}

}  // namespace
