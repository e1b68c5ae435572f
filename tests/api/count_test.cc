// SPDX-License-Identifier: Apache-2.0
// Counts that no array has are refused before anything is read: what is refused here has two ids behind it.
#include <gmock/gmock.h>
#include <stdint.h>

#include <array>
#include <string>
#include <vector>

#include "runtime/api/moonlit.hpp"
#include "tests/api/loaded_poet.h"

namespace moonlit {
namespace {

using ::testing::HasSubstr;

class CountTest : public LoadedPoet {
 protected:
  void SetUp() override {
    LoadedPoet::SetUp();
    ASSERT_EQ(moonlit_eval(session, ids_.data(), ids_.size(), MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error_),
              MOONLIT_OK)
        << error_.message;
  }

  moonlit_code Eval(size_t count) {
    return moonlit_eval(session, ids_.data(), count, MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error_);
  }

  moonlit_rows Rows(size_t count) const {
    moonlit_rows rows;
    moonlit_rows_init(&rows, sizeof rows);
    rows.count = count;
    rows.outputs = MOONLIT_OUTPUT_NONE;
    return rows;
  }

  std::array<int32_t, 2> ids_ = {21, 22};
  std::array<float, 4> embeddings_ = {};
  moonlit_error error_ = {};
};

// With the two that the session holds the first two sums are 1 and 0.
constexpr size_t kNoArray[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 + 1, PTRDIFF_MAX / sizeof(int32_t) + 1};
constexpr size_t kTooMany[] = {PTRDIFF_MAX / sizeof(int32_t), 63};

TEST_F(CountTest, EvalRefusesWhatTheContextCannotHold) {
  for (const size_t count : kNoArray) {
    EXPECT_EQ(Eval(count), MOONLIT_INVALID_ARGUMENT) << count;
    EXPECT_THAT(error_.message, HasSubstr("no array has")) << count;
  }
  for (const size_t count : kTooMany) {
    EXPECT_EQ(Eval(count), MOONLIT_EXHAUSTED) << count;
    EXPECT_THAT(error_.message, HasSubstr("larger n_ctx")) << count;
  }
  EXPECT_EQ(moonlit_session_length(session), 2u);
}

TEST_F(CountTest, GenerateRefusesWhatTheContextCannotHold) {
  const auto generate = [&](size_t count) {
    return moonlit_generate(session, ids_.data(), count, nullptr, nullptr, &error_);
  };
  for (const size_t count : kNoArray) EXPECT_EQ(generate(count), MOONLIT_INVALID_ARGUMENT) << count;
  for (const size_t count : kTooMany) EXPECT_EQ(generate(count), MOONLIT_EXHAUSTED) << count << ": " << error_.message;
  EXPECT_EQ(moonlit_session_length(session), 2u);
}

// Of lists of pointers one entry is there.
TEST_F(CountTest, ListsRefuseCountsThatNoArrayHas) {
  const size_t huge = SIZE_MAX / 4;
  moonlit_generate_options generate;
  moonlit_generate_options_init(&generate, sizeof generate);
  const char* const texts[] = {"text"};
  generate.stop = texts, generate.stop_count = huge;
  EXPECT_EQ(moonlit_generate(session, ids_.data(), 2, &generate, nullptr, &error_), MOONLIT_INVALID_ARGUMENT);
  const moonlit_adapter* const adapters[] = {nullptr};
  EXPECT_EQ(moonlit_session_set_adapters(session, adapters, nullptr, huge, &error_), MOONLIT_INVALID_ARGUMENT);
  const moonlit_chat_message messages[] = {{"user", "text", 4}};
  size_t length = 0;
  EXPECT_EQ(moonlit_chat_render(model, messages, huge, nullptr, nullptr, 0, &length, &error_),
            MOONLIT_INVALID_ARGUMENT);
  EXPECT_EQ(moonlit_chat_tokenize(model, messages, huge, nullptr, nullptr, 0, &length, &error_),
            MOONLIT_INVALID_ARGUMENT);
  EXPECT_EQ(moonlit_check_output("out", texts, huge, &error_), MOONLIT_INVALID_ARGUMENT);
  EXPECT_EQ(moonlit_tokenize(model, "text", SIZE_MAX, 0, nullptr, 0, &length, &error_), MOONLIT_INVALID_ARGUMENT);
  EXPECT_EQ(moonlit_sampler_accept_prompt(sampler, ids_.data(), huge, &error_), MOONLIT_INVALID_ARGUMENT);
  EXPECT_EQ(moonlit_perplexity(session, ids_.data(), huge * 2, 32, nullptr, nullptr, nullptr, &error_),
            MOONLIT_INVALID_ARGUMENT);
}

// A model's sessions are no more than max_sessions, which is 1 here.
TEST_F(CountTest, AStepRefusesMoreSessionsThanLive) {
  moonlit_rows rows = Rows(2);
  rows.ids = ids_.data();
  const moonlit_rows* list[] = {&rows};
  for (const size_t count : {size_t{2}, size_t{PTRDIFF_MAX / sizeof(void*)}, SIZE_MAX}) {
    EXPECT_EQ(moonlit_step(&session, list, count, &error_), MOONLIT_INVALID_ARGUMENT) << count;
    EXPECT_EQ(moonlit_session_length(session), 2u);
  }
}

TEST_F(CountTest, RowsRefuseMoreThanAStepTakes) {
  for (const size_t count : {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 4 + 1}) {
    moonlit_rows rows = Rows(count);
    rows.ids = ids_.data();
    EXPECT_EQ(moonlit_eval_rows(session, &rows, &error_), MOONLIT_INVALID_ARGUMENT) << count;
    EXPECT_THAT(error_.message, HasSubstr("chunk_tokens")) << count;
    rows.ids = nullptr;
    rows.embeddings = embeddings_.data();
    EXPECT_EQ(moonlit_eval_rows(session, &rows, &error_), MOONLIT_INVALID_ARGUMENT) << count;
    EXPECT_THAT(error_.message, HasSubstr("chunk_tokens")) << count;
    EXPECT_EQ(moonlit_session_length(session), 2u) << count;
  }
}

TEST_F(CountTest, PlansRefuseThreadsThatLoadingRefuses) {
  moonlit_model_options options;
  moonlit_model_options_init(&options, sizeof options);
  options.threads = 1025;
  moonlit_model* loaded = nullptr;
  const moonlit_code expected = moonlit_model_load("poet", &options, &loaded, &error_);
  EXPECT_EQ(expected, MOONLIT_INVALID_ARGUMENT);
  const std::string message = error_.message;
  moonlit_memory memory = {};
  memory.size = sizeof memory;
  EXPECT_EQ(moonlit_plan_memory("poet", &options, &memory, &error_), expected);
  EXPECT_EQ(error_.message, message);
}

TEST_F(CountTest, ScalesAreAsManyAsAdapters) {
  api::Session own(session);
  session = nullptr;
  const std::vector<const moonlit_adapter*> adapters(3, nullptr);
  const std::vector<float> scales = {1.0f};
  const api::Error refused = own.SetAdapters(adapters, scales);
  EXPECT_EQ(refused.code, MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(refused.message, HasSubstr("a scale for each adapter"));
}

}  // namespace
}  // namespace moonlit
