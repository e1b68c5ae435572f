// SPDX-License-Identifier: Apache-2.0
// Calls of several threads on a fake model. What runs when is decided by tests, not by a clock: a step can be held until so many calls
// wait behind it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/decode/fake_model.h"

namespace moonlit {

// One thread's step.
struct Work {
  std::vector<SessionSpan> spans;
  std::atomic<bool> abort{false};
  RowsConsumer rows;
  Status status;
};

class BatcherTest : public testing::Test {
 protected:
  void Make(EngineOptions options) {
    engine_ = MakeFakeEngine(options, &plan_);
    plan_->on_run = [this](std::span<const StepSpan> spans) {
      std::vector<size_t>& rows = steps_.emplace_back();
      for (const StepSpan& span : spans) rows.push_back(span.tokens.size());
      return on_step ? on_step(spans) : Status();
    };
  }

  // A call for `rows` new tokens of a session of its own.
  Work& Add(size_t rows, Outputs outputs = Outputs::kLast) {
    Session* session = sessions_.emplace_back(NewSession(*engine_)).get();
    const auto& ids = ids_.emplace_back(Ids(rows, static_cast<uint32_t>(ids_.size()) + 7));
    Work& work = works_.emplace_back();
    work.spans = {{session, ids, outputs}};
    return work;
  }

  void Run(Work& work) { work.status = engine_->Step(work.spans, &work.rows, &work.abort); }

  // Step 1 is the first call's. While it is held the others come, one after the other, each on a thread of its own.
  void RunBehindTheFirst() {
    std::vector<std::thread> threads;
    const auto after = std::exchange(on_step, nullptr);
    on_step = [&](std::span<const StepSpan> spans) {
      if (steps_.size() > 1) return after ? after(spans) : Status();
      for (size_t i = 1; i < works_.size(); ++i) {
        threads.emplace_back([&, i] { Run(works_[i]); });
        AwaitWaiting(i);
      }
      return Status();
    };
    Run(works_[0]);
    engine_->Leave();
    for (std::thread& thread : threads) thread.join();
    on_step = nullptr;
  }

  void AwaitWaiting(size_t count) const {
    while (engine_->waiting_calls() != count) std::this_thread::yield();
  }

  // That the call got the last logits of each of its sessions.
  static void ExpectDone(const Work& work) {
    ASSERT_TRUE(work.status.ok()) << work.status.ToString();
    ASSERT_EQ(work.rows.values.size(), work.spans.size());
    for (size_t s = 0; s < work.spans.size(); ++s) {
      EXPECT_EQ(work.rows.keys[s], std::make_pair(s, work.spans[s].tokens.size() - 1));
      EXPECT_EQ(work.rows.values[s], FakeLogits(work.spans[s].session->tokens()));
    }
  }
  static void ExpectUntouched(const Work& work, Code code) {
    EXPECT_EQ(work.status.code(), code) << work.status.ToString();
    EXPECT_TRUE(work.rows.values.empty());
    for (const SessionSpan& span : work.spans) EXPECT_EQ(span.session->length(), 0);
  }

  FakePlan* plan_ = nullptr;
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::deque<std::vector<int32_t>> ids_;
  std::deque<Work> works_;
  std::vector<std::vector<size_t>> steps_;  // rows of the spans
  std::function<Status(std::span<const StepSpan>)> on_step;
};

// Calls what it is told to while it has a row.
class Calling final : public LogitsConsumer {
 public:
  explicit Calling(std::function<void()> call, bool hidden = false) : call_(std::move(call)), hidden_(hidden) {}
  bool takes_hidden() const override { return hidden_; }
  void Consume(size_t, size_t, size_t, const float*, size_t) override { call_(); }

 private:
  std::function<void()> call_;
  bool hidden_;
};

}  // namespace moonlit
