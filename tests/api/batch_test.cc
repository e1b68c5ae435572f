// SPDX-License-Identifier: Apache-2.0
// Several threads with a session each of one model: they share steps, and what each of them gets is what it gets alone.
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "runtime/api/moonlit.h"
#include "tests/support/slowed.h"

namespace {

using moonlit::kSlowed;

constexpr size_t kContext = 200;

// What a thread does with a session: it generates, or reads a long text.
struct Task {
  std::vector<int32_t> ids;
  moonlit_generate_options options;
  size_t cancel_after = SIZE_MAX;  // pieces of text
  bool reads_only = false;

  moonlit_session* session = nullptr;
  moonlit_error error = {};
  moonlit_generate_result result = {};
  std::string text;
  std::vector<int32_t> tokens;  // of the session afterwards
  std::vector<float> logits;    // the last, of one that reads

  void Clear() {
    text.clear();
    tokens.clear();
    logits.clear();
    pieces = 0;
  }
  size_t pieces = 0;
};

int Text(void* user, const char* piece, size_t length) {
  Task& task = *static_cast<Task*>(user);
  task.text.append(piece, length);
  if (++task.pieces == task.cancel_after) moonlit_session_cancel(task.session);
  return 0;
}

void Logits(void* user, size_t, const float* logits, size_t n_vocab) {
  static_cast<Task*>(user)->logits.assign(logits, logits + n_vocab);
}

class BatchTest : public testing::Test {
 protected:
  void SetUp() override {
    moonlit_model_options options;
    moonlit_model_options_init(&options, sizeof options);
    options.n_ctx = kContext;
    options.max_sessions = 8;
    options.chunk_tokens = 128;
    options.threads = 2;
    options.share_prefixes = 0;  // nothing is compared with itself
    moonlit_error error = {};
    ASSERT_EQ(moonlit_model_load("poet", &options, &model_, &error), MOONLIT_OK) << error.message;
  }
  void TearDown() override { moonlit_model_free(model_); }

  Task& Add(size_t prompt, size_t max_tokens) {
    Task& task = tasks_.emplace_back();
    const auto number = static_cast<int32_t>(tasks_.size());
    for (size_t i = 0; i < prompt; ++i) task.ids.push_back(20 + (number * 131 + static_cast<int32_t>(i) * 7) % 300);
    moonlit_generate_options_init(&task.options, sizeof task.options);
    task.options.seed = static_cast<uint64_t>(number);
    task.options.max_tokens = max_tokens;
    task.options.ignore_end = 1;
    return task;
  }

  void Run(Task& task) {
    task.Clear();
    ASSERT_EQ(moonlit_session_new(model_, &task.session, &task.error), MOONLIT_OK) << task.error.message;
    task.result.size = sizeof task.result;
    task.options.text = Text;
    task.options.user = &task;
    const size_t n = task.ids.size();
    const moonlit_code code =
        task.reads_only
            ? moonlit_eval(task.session, task.ids.data(), n, MOONLIT_OUTPUT_LAST, Logits, &task, &task.error)
            : moonlit_generate(task.session, task.ids.data(), n, &task.options, &task.result, &task.error);
    EXPECT_EQ(code, MOONLIT_OK) << task.error.message;
    task.tokens.resize(moonlit_session_length(task.session));
    moonlit_session_tokens(task.session, task.tokens.data(), task.tokens.size());
    moonlit_session_free(task.session);
  }

  // All tasks one after the other, and then some times beside each other.
  void ExpectTheSameTogether(int rounds) {
    for (Task& task : tasks_) Run(task);
    const std::deque<Task> alone = tasks_;
    for (int round = 0; round < rounds; ++round) {
      std::vector<std::thread> threads;
      for (Task& task : tasks_) threads.emplace_back([this, &task] { Run(task); });
      for (std::thread& thread : threads) thread.join();
      for (size_t i = 0; i < tasks_.size(); ++i) {
        EXPECT_EQ(tasks_[i].text, alone[i].text) << i;
        EXPECT_EQ(tasks_[i].tokens, alone[i].tokens) << i;
        EXPECT_EQ(tasks_[i].logits, alone[i].logits) << i;
        EXPECT_EQ(tasks_[i].result.finish, alone[i].result.finish) << i;
      }
    }
  }

  moonlit_model* model_ = nullptr;
  std::deque<Task> tasks_;
};

TEST_F(BatchTest, TextsAreThoseThatEachSessionMakesAlone) {
  for (size_t i = 0; i < 6; ++i) Add(1 + 7 * i, kSlowed ? 10 : 60);
  tasks_[1].options.temperature = 0;
  tasks_[2].options.repeat_penalty = 1.3f;
  ExpectTheSameTogether(3);
  EXPECT_FALSE(tasks_[0].text.empty());
  EXPECT_NE(tasks_[0].text, tasks_[3].text);
}

// One reads a text in several chunks, one is cancelled, one fills its context, and one goes beyond it.
TEST_F(BatchTest, NobodyIsDisturbedByTheOthers) {
  const size_t most = kSlowed ? 12 : 60;
  Add(3, most);
  Add(30, most);
  Add(190, 1).reads_only = true;
  Add(5, most).cancel_after = 4;
  Add(kContext - most / 2, 0);
  Task& shifting = Add(kContext - 5, most);
  shifting.options.context_shift = 1;
  Add(150, most);
  ExpectTheSameTogether(3);
  EXPECT_EQ(tasks_[0].result.finish, MOONLIT_FINISH_LENGTH);
  EXPECT_EQ(tasks_[3].result.finish, MOONLIT_FINISH_CANCELLED);
  EXPECT_EQ(tasks_[4].result.finish, MOONLIT_FINISH_CONTEXT);
  EXPECT_EQ(tasks_[5].result.finish, MOONLIT_FINISH_LENGTH);
  EXPECT_EQ(tasks_[5].result.context_shifts, 1u);
}

}  // namespace
