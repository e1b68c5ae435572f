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

// With the two that the session holds these sums are 1, 0 and 2^63 + 2.
constexpr size_t kHuge[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 + 1, 63};

TEST_F(CountTest, EvalRefusesWhatTheContextCannotHold) {
  for (const size_t count : kHuge) {
    EXPECT_EQ(Eval(count), MOONLIT_EXHAUSTED) << count;
    EXPECT_THAT(error_.message, HasSubstr("larger n_ctx")) << count;
    EXPECT_EQ(moonlit_session_length(session), 2u) << count;
  }
}

TEST_F(CountTest, GenerateRefusesWhatTheContextCannotHold) {
  for (const size_t count : kHuge) {
    EXPECT_EQ(moonlit_generate(session, ids_.data(), count, nullptr, nullptr, &error_), MOONLIT_EXHAUSTED)
        << count << ": " << error_.message;
    EXPECT_EQ(moonlit_session_length(session), 2u) << count;
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
