// SPDX-License-Identifier: Apache-2.0
// One step for several sessions through the C and the C++ interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/api/moonlit.hpp"

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace api = moonlit::api;

constexpr size_t kSessions = 4;

// What a `consume` was called with, over all sessions in order.
struct Row {
  size_t session, position;
  std::vector<float> values;
};
struct Receiver {
  std::vector<Row>* all;
  size_t session;
};
void Keep(void* user, size_t position, const float* values, size_t width) {
  const auto* to = static_cast<Receiver*>(user);
  to->all->push_back({to->session, position, {values, values + width}});
}

class StepTest : public testing::Test {
 protected:
  void SetUp() override {
    moonlit_model_options options;
    moonlit_model_options_init(&options, sizeof options);
    options.n_ctx = 128;
    options.max_sessions = kSessions;
    options.chunk_tokens = 128;
    options.share_prefixes = 0;
    options.threads = 2;
    ASSERT_EQ(moonlit_model_load("poet", &options, &model_, &error_), MOONLIT_OK) << error_.message;
    for (size_t s = 0; s < kSessions; ++s) {
      ASSERT_EQ(moonlit_session_new(model_, &sessions_[s], &error_), MOONLIT_OK) << error_.message;
      receivers_[s] = {&all_, s};
    }
  }
  void TearDown() override {
    for (moonlit_session* session : sessions_) moonlit_session_free(session);
    moonlit_model_free(model_);
  }

  moonlit_rows Rows(size_t session, size_t count, moonlit_outputs outputs = MOONLIT_OUTPUT_LAST) {
    std::vector<int32_t>& ids = ids_[session];
    ids.clear();
    for (size_t i = 0; i < count; ++i) ids.push_back(20 + static_cast<int32_t>((session * 131 + i * 7) % 300));
    moonlit_rows rows;
    moonlit_rows_init(&rows, sizeof rows);
    rows.ids = ids.data();
    rows.count = count;
    rows.outputs = outputs;
    rows.consume = Keep;
    rows.user = &receivers_[session];
    return rows;
  }

  // Of the first sessions, one for each rows.
  moonlit_code Step(const std::vector<moonlit_rows>& rows) {
    std::vector<const moonlit_rows*> pointers;
    for (const moonlit_rows& one : rows) pointers.push_back(&one);
    return moonlit_step(sessions_, pointers.data(), rows.size(), &error_);
  }

  void ExpectLengths(const std::vector<size_t>& lengths) const {
    for (size_t s = 0; s < lengths.size(); ++s) EXPECT_EQ(moonlit_session_length(sessions_[s]), lengths[s]) << s;
  }

  moonlit_model* model_ = nullptr;
  moonlit_session* sessions_[kSessions] = {};
  std::vector<int32_t> ids_[kSessions];
  Receiver receivers_[kSessions];
  std::vector<Row> all_;
  moonlit_error error_ = {};
};

TEST_F(StepTest, GivesTheBitsOfEachSessionAlone) {
  const std::vector<moonlit_rows> rows = {Rows(0, 30), Rows(1, 5, MOONLIT_OUTPUT_ALL), Rows(2, 1, MOONLIT_OUTPUT_NONE),
                                          Rows(3, 2, MOONLIT_OUTPUT_GENERATED)};
  ASSERT_EQ(Step(rows), MOONLIT_OK) << error_.message;
  ExpectLengths({30, 5, 1, 2});
  const std::vector<Row> together = std::move(all_);
  ASSERT_EQ(together.size(), 7u);
  all_.clear();
  for (size_t s = 0; s < kSessions; ++s) {
    ASSERT_EQ(moonlit_session_truncate(sessions_[s], 0, &error_), MOONLIT_OK) << error_.message;
    ASSERT_EQ(moonlit_eval_rows(sessions_[s], &rows[s], &error_), MOONLIT_OK) << error_.message;
  }
  ASSERT_EQ(all_.size(), together.size());
  for (size_t r = 0; r < all_.size(); ++r) {
    EXPECT_EQ(together[r].session, all_[r].session);
    EXPECT_EQ(together[r].position, all_[r].position);
    EXPECT_EQ(together[r].values, all_[r].values) << "session " << all_[r].session;
  }
}

// Rows of embeddings beside ids, with positions; the other way than above: first alone, then together.
TEST_F(StepTest, TakesEmbeddingsAndGivesHiddenStates) {
  moonlit_model_info info = {};
  info.size = sizeof info;
  moonlit_model_get_info(model_, &info);
  std::vector<float> embeddings(3 * info.n_embd);
  for (size_t i = 0; i < embeddings.size(); ++i) embeddings[i] = 0.01f * static_cast<float>(i % 13);
  const std::vector<int32_t> positions = {0, 0, 5};
  std::vector<moonlit_rows> rows = {Rows(0, 3), Rows(1, 9)};
  rows[0].ids = nullptr;
  rows[0].embeddings = embeddings.data();
  rows[0].positions = positions.data();
  for (moonlit_rows& one : rows) one.hidden = 1;
  for (size_t s = 0; s < 2; ++s) {
    ASSERT_EQ(moonlit_eval_rows(sessions_[s], &rows[s], &error_), MOONLIT_OK) << error_.message;
    ASSERT_EQ(moonlit_session_truncate(sessions_[s], 0, &error_), MOONLIT_OK) << error_.message;
  }
  ASSERT_EQ(Step(rows), MOONLIT_OK) << error_.message;
  ASSERT_EQ(all_.size(), 4u);
  for (size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(all_[s].values.size(), info.n_embd);
    EXPECT_EQ(all_[2 + s].session, s);
    EXPECT_EQ(all_[2 + s].values, all_[s].values);
  }
}

// What a row sees is told by the ids that its hidden state depends on.
TEST_F(StepTest, RowsOfAPrefixSeeEachOther) {
  constexpr size_t kRows = 70;
  const auto hidden = [&](size_t prefix, size_t changed) {
    moonlit_rows rows = Rows(0, kRows, MOONLIT_OUTPUT_ALL);
    rows.hidden = 1;
    rows.prefix = prefix;
    if (changed < kRows) ids_[0][changed] += 1;
    all_.clear();
    EXPECT_EQ(moonlit_session_truncate(sessions_[0], 0, &error_), MOONLIT_OK) << error_.message;
    EXPECT_EQ(moonlit_eval_rows(sessions_[0], &rows, &error_), MOONLIT_OK) << error_.message;
    std::vector<std::vector<float>> values;
    for (const Row& row : all_) values.push_back(row.values);
    return values;
  };
  for (const size_t prefix : {size_t{1}, size_t{40}, kRows}) {
    const auto before = hidden(prefix, kRows);
    ASSERT_EQ(before.size(), kRows);
    for (const size_t changed : {size_t{20}, size_t{40}, kRows - 1}) {
      const auto after = hidden(prefix, changed);
      for (size_t row = 0; row < kRows; ++row) {
        const bool seen = changed <= row || (changed < prefix && row < prefix);
        EXPECT_EQ(after[row] != before[row], seen) << "prefix " << prefix << ", row " << row << " and id " << changed;
      }
    }
  }
}

// The blocks that a prefix has filled are not what the same ids give elsewhere.
TEST(PrefixRows, AreNotSharedByContent) {
  moonlit_model_options options = api::Model::Options();
  options.max_sessions = 3;
  auto model = api::Model::Load("poet", options);
  ASSERT_TRUE(model) << model.error().message;
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 200; ++i) ids.push_back(20 + i * 7 % 300);
  std::vector<float> logits;
  const auto keep = [&](size_t, std::span<const float> values) { logits.assign(values.begin(), values.end()); };
  moonlit_rows rows = api::Session::Rows();
  rows.ids = ids.data();
  rows.count = ids.size();
  auto first = model->NewSession(), second = model->NewSession(), third = model->NewSession();
  ASSERT_TRUE(first && second && third);
  rows.prefix = 150;
  ASSERT_EQ(first->EvalRows(rows, keep).code, MOONLIT_OK);
  const std::vector<float> together = logits;
  ASSERT_EQ(second->Eval(ids, MOONLIT_OUTPUT_LAST, keep).code, MOONLIT_OK);  // takes what is known by its ids
  const std::vector<float> causal = logits;
  rows.prefix = 0;
  ASSERT_EQ(third->EvalRows(rows, keep).code, MOONLIT_OK);  // never does
  EXPECT_EQ(logits, causal);
  EXPECT_NE(logits, together);
}

TEST_F(StepTest, IsAllOrNothing) {
  ASSERT_EQ(Step({Rows(0, 3), Rows(1, 120)}), MOONLIT_OK) << error_.message;
  all_.clear();
  EXPECT_EQ(Step({Rows(0, 4), Rows(1, 9), Rows(2, 5)}), MOONLIT_EXHAUSTED);
  EXPECT_THAT(error_.message, HasSubstr("129 tokens are needed"));
  ExpectLengths({3, 120, 0});
  EXPECT_TRUE(all_.empty());
  ASSERT_EQ(Step({Rows(0, 4), Rows(1, 0), Rows(2, 5)}), MOONLIT_OK) << error_.message;
  ExpectLengths({7, 120, 5});
  EXPECT_EQ(all_.size(), 2u);
  EXPECT_EQ(moonlit_step(nullptr, nullptr, 0, &error_), MOONLIT_OK);
}

// Outputs come 32 at a time: the first ones cancel a session that is not theirs, before the next are computed.
TEST_F(StepTest, CancellingAnySessionStopsIt) {
  for (size_t cancelled : {0, 1, 2}) {
    std::vector<moonlit_rows> rows = {Rows(0, 80, MOONLIT_OUTPUT_ALL), Rows(1, 4), Rows(2, 0)};
    rows[0].user = sessions_[cancelled];
    rows[0].consume = [](void* user, size_t, const float*, size_t) {
      moonlit_session_cancel(static_cast<moonlit_session*>(user));
    };
    EXPECT_EQ(Step(rows), MOONLIT_CANCELLED);
    ExpectLengths({0, 0, 0});
  }
}

TEST_F(StepTest, WrongCallsAreNamed) {
  const auto expect = [&](const std::vector<moonlit_rows>& rows, moonlit_code code, const char* message) {
    EXPECT_EQ(Step(rows), code);
    EXPECT_THAT(error_.message, HasSubstr(message));
    ExpectLengths({0, 0, 0, 0});
  };
  std::vector<moonlit_rows> rows = {Rows(0, 3), Rows(1, 3), Rows(2, 3)};
  rows[2].hidden = 1;
  expect(rows, MOONLIT_INVALID_ARGUMENT, "rows 2: hidden states are wanted, but logits before them");
  rows[2].outputs = static_cast<moonlit_outputs>(9);
  expect(rows, MOONLIT_INVALID_ARGUMENT, "rows 2: outputs is 9");
  rows[1].ids = nullptr;
  expect(rows, MOONLIT_INVALID_ARGUMENT, "rows 1: there are neither ids nor embeddings");
  rows[0].prefix = 4;
  expect(rows, MOONLIT_INVALID_ARGUMENT, "rows 0: the first 4 shall see each other, expected at most the 3");
  rows[0].prefix = 0;
  rows[0].sections = 3;
  expect(rows, MOONLIT_UNSUPPORTED, "rows 0: 3 positions a row");
  expect({Rows(0, 100), Rows(1, 29)}, MOONLIT_INVALID_ARGUMENT, "129 tokens, expected at most 128");

  const moonlit_rows one = Rows(0, 3);
  const moonlit_rows* const twice[] = {&one, &one};
  moonlit_session* const same[] = {sessions_[0], sessions_[0]};
  EXPECT_EQ(moonlit_step(same, twice, 2, &error_), MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("of one session"));

  moonlit_model* other = nullptr;
  moonlit_session* foreign = nullptr;
  ASSERT_EQ(moonlit_model_load("poet", nullptr, &other, &error_), MOONLIT_OK) << error_.message;
  ASSERT_EQ(moonlit_session_new(other, &foreign, &error_), MOONLIT_OK) << error_.message;
  moonlit_session* const mixed[] = {sessions_[0], foreign};
  EXPECT_EQ(moonlit_step(mixed, twice, 2, &error_), MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("session 1 is of another model"));
  moonlit_session_free(foreign);
  moonlit_model_free(other);
}

TEST(StepInCpp, NamesTheSessionOfARow) {
  moonlit_model_options options = api::Model::Options();
  options.max_sessions = 2;
  auto model = api::Model::Load("poet", options);
  ASSERT_TRUE(model) << model.error().message;
  auto first = model->NewSession(), second = model->NewSession();
  ASSERT_TRUE(first && second);
  const int32_t ids[] = {20, 21, 22};
  std::vector<moonlit_rows> rows(2, api::Session::Rows());
  for (size_t i = 0; i < 2; ++i) rows[i].ids = ids, rows[i].count = 2 + i;
  api::Session* const sessions[] = {&*first, &*second};
  std::vector<size_t> seen;
  const auto error = api::Step(sessions, rows, [&](size_t session, size_t position, std::span<const float> logits) {
    EXPECT_EQ(logits.size(), model->info().n_vocab);
    seen.insert(seen.end(), {session, position});
  });
  EXPECT_EQ(error.code, MOONLIT_OK) << error.message;
  EXPECT_THAT(seen, ElementsAre(0, 1, 1, 2));
  EXPECT_EQ(second->length(), 3u);
  EXPECT_EQ(api::Step(sessions, std::span(rows).first(1), {}).code, MOONLIT_INVALID_ARGUMENT);
}

}  // namespace
