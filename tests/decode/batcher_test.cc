// SPDX-License-Identifier: Apache-2.0
// Calls of several threads in one step.
#include "runtime/decode/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "runtime/exec/step_tap.h"
#include "tests/decode/batcher_fixture.h"
#include "tests/support/slowed.h"

namespace moonlit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(BatcherTest, CallsThatWaitShareAStep) {
  Make({.max_sessions = 4});
  for (size_t rows : {5, 1, 30, 2}) Add(rows);
  RunBehindTheFirst();
  for (const Work& work : works_) ExpectDone(work);
  EXPECT_THAT(steps_, ElementsAre(ElementsAre(5), ElementsAre(1, 30, 2)));
}

TEST_F(BatcherTest, WhatDoesNotFitWaits) {
  Make({.max_sessions = 6, .chunk_tokens = 50});
  for (size_t rows : {1, 30, 25, 21, 20, 4}) Add(rows);
  RunBehindTheFirst();
  for (const Work& work : works_) ExpectDone(work);
  EXPECT_THAT(steps_, ElementsAre(ElementsAre(1), ElementsAre(30, 20), ElementsAre(25, 21, 4)));
}

// Prompts fill a step, but for one in which somebody generates.
TEST_F(BatcherTest, PromptsBesideAGeneratingCallAreFew) {
  Make({.n_ctx = 512, .max_sessions = 6, .chunk_tokens = 512});
  for (size_t rows : {1, 60, 60, 60}) Add(rows, Outputs::kNone);
  RunBehindTheFirst();
  EXPECT_THAT(steps_, ElementsAre(ElementsAre(1), ElementsAre(60, 60, 60)));
  steps_.clear();
  works_.clear();
  sessions_.clear();
  for (size_t rows : {1, 60, 40, 30, 1, 4}) Add(rows, Outputs::kNone);
  RunBehindTheFirst();
  EXPECT_THAT(steps_, ElementsAre(ElementsAre(1), ElementsAre(60, 1, 4), ElementsAre(40, 30)));
}

// An explicit step of several sessions is one call: it rides whole.
TEST_F(BatcherTest, ACallOfSeveralSessionsRidesWithOthers) {
  Make({.n_ctx = 100, .max_sessions = 8});
  Add(3);
  for (size_t rows : {2, 4, 101}) {
    Work& work = Add(rows);
    const SessionSpan other = Add(5).spans[0];
    works_.pop_back();
    work.spans.insert(work.spans.begin(), other);
  }
  RunBehindTheFirst();
  for (size_t i = 0; i < 3; ++i) ExpectDone(works_[i]);
  ExpectUntouched(works_[3], Code::kExhausted);
  EXPECT_THAT(works_[3].status.ToString(), HasSubstr("101 tokens are needed"));
  EXPECT_THAT(steps_, ElementsAre(ElementsAre(3), ElementsAre(5, 2, 5, 4)));
}

// Whoever leads: the first one's context is full, so that nobody's step is its own.
TEST_F(BatcherTest, AFullContextIsItsOwnersAffair) {
  Make({.n_ctx = 50, .max_sessions = 4});
  for (size_t rows : {3, 51, 4, 51}) Add(rows);
  RunBehindTheFirst();
  ExpectDone(works_[0]);
  ExpectDone(works_[2]);
  ExpectUntouched(works_[1], Code::kExhausted);
  ExpectUntouched(works_[3], Code::kExhausted);
  EXPECT_THAT(steps_, ElementsAre(ElementsAre(3), ElementsAre(4)));
}

TEST_F(BatcherTest, WhatThePlanRefusesRunsAlone) {
  Make({.max_sessions = 4});
  for (size_t rows : {3, 4, 5, 6}) Add(rows);
  on_step = [](std::span<const StepSpan> spans) {
    for (const StepSpan& span : spans) {
      if (span.tokens.size() == 5) return Status(Code::kUnsupported, "five");
    }
    return Status();
  };
  RunBehindTheFirst();
  for (size_t i : {0, 1, 3}) ExpectDone(works_[i]);
  ExpectUntouched(works_[2], Code::kUnsupported);
  EXPECT_THAT(steps_,
              ElementsAre(ElementsAre(3), ElementsAre(4, 5, 6), ElementsAre(4), ElementsAre(5), ElementsAre(6)));
}

// Also under the leader's feet.
TEST_F(BatcherTest, TheOthersOfACancelledStepRunAgainAtOnce) {
  for (size_t cancelled : {1, 2, 3}) {
    Make({.max_sessions = 4});
    for (size_t rows : {3, 4, 5, 6}) Add(rows);
    on_step = [&](std::span<const StepSpan> spans) {
      if (spans.size() == 3) works_[cancelled].abort = true;
      return Status();
    };
    RunBehindTheFirst();
    for (size_t i = 0; i < 4; ++i) {
      i == cancelled ? ExpectUntouched(works_[i], Code::kCancelled) : ExpectDone(works_[i]);
    }
    std::vector<size_t> again = {4, 5, 6};
    again.erase(again.begin() + static_cast<std::ptrdiff_t>(cancelled) - 1);
    EXPECT_THAT(steps_, ElementsAre(ElementsAre(3), ElementsAre(4, 5, 6), again));
    works_.clear();
    steps_.clear();
    sessions_.clear();
  }
}

TEST_F(BatcherTest, AllOfAStepMayBeCancelled) {
  Make({.max_sessions = 4});
  for (size_t rows : {3, 4, 5, 6}) Add(rows);
  on_step = [&](std::span<const StepSpan>) {
    for (Work& work : works_) work.abort = true;
    return Status();
  };
  RunBehindTheFirst();
  ExpectDone(works_[0]);
  for (size_t i : {1, 2, 3}) ExpectUntouched(works_[i], Code::kCancelled);
  EXPECT_EQ(steps_.size(), 2u);
}

// It does not need the running step to end for that.
TEST_F(BatcherTest, AWaitingCallCanBeCancelled) {
  Make({.max_sessions = 3});
  for (size_t rows : {3, 4, 5}) Add(rows);
  std::vector<std::thread> threads;
  on_step = [&](std::span<const StepSpan>) {
    if (steps_.size() > 1) return Status();
    for (size_t i : {1, 2}) {
      threads.emplace_back([&, i] { Run(works_[i]); });
      AwaitWaiting(i);
    }
    works_[1].abort = true;
    threads[0].join();
    return Status();
  };
  Run(works_[0]);
  engine_->Leave();
  threads[1].join();
  ExpectDone(works_[0]);
  ExpectUntouched(works_[1], Code::kCancelled);
  ExpectDone(works_[2]);
  EXPECT_THAT(steps_, ElementsAre(ElementsAre(3), ElementsAre(5)));
}

// Where outputs are many nothing is copied, and nobody rides along.
TEST_F(BatcherTest, ManyOutputsRunAlone) {
  Make({.max_sessions = 5});
  Add(3);
  Add(17, Outputs::kAll);
  Add(4);
  Add(16, Outputs::kAll);
  RunBehindTheFirst();
  ExpectDone(works_[0]);
  ExpectDone(works_[2]);
  for (size_t i : {1, 3}) {
    ASSERT_TRUE(works_[i].status.ok());
    const std::span<const int32_t> ids = works_[i].spans[0].tokens;
    ASSERT_EQ(works_[i].rows.values.size(), ids.size());
    for (size_t t = 0; t < ids.size(); ++t) {
      EXPECT_EQ(works_[i].rows.keys[t], std::make_pair(size_t{0}, t));
      EXPECT_EQ(works_[i].rows.values[t], FakeLogits(ids.first(t + 1)));
    }
  }
  EXPECT_THAT(steps_, ElementsAre(ElementsAre(3), ElementsAre(17), ElementsAre(4, 16)));
}

// The leader's and a rider's consumers wait for a step that comes after theirs.
TEST_F(BatcherTest, ConsumersOfASharedStepHoldNobodyUp) {
  Make({.max_sessions = 4, .chunk_tokens = 10});
  for (size_t rows : {1, 4, 5, 6}) Add(rows);
  std::atomic<bool> last_is_done{false};
  std::vector<std::thread> threads;
  on_step = [&](std::span<const StepSpan>) {
    if (steps_.size() > 1) return Status();
    for (size_t i = 1; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const std::thread::id self = std::this_thread::get_id();
        Calling consumer([&] {
          EXPECT_EQ(std::this_thread::get_id(), self);
          while (i != 3 && !last_is_done) std::this_thread::yield();
        });
        EXPECT_TRUE(engine_->Step(works_[i].spans, &consumer).ok());
        if (i == 3) last_is_done = true;
      });
      AwaitWaiting(i);
    }
    return Status();
  };
  Run(works_[0]);
  engine_->Leave();
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(steps_, ElementsAre(ElementsAre(1), ElementsAre(4, 5), ElementsAre(6)));
}

TEST_F(BatcherTest, HiddenStatesAndLogitsDoNotShare) {
  Make({.max_sessions = 5});
  for (size_t rows : {1, 2, 3, 4}) Add(rows);
  Add(5, Outputs::kNone);
  std::vector<std::thread> threads;
  on_step = [&](std::span<const StepSpan>) {
    if (steps_.size() > 1) return Status();
    for (size_t i = 1; i < 5; ++i) {
      threads.emplace_back([&, i] {
        Calling consumer([] {}, /*hidden=*/i == 1 || i == 3);
        EXPECT_TRUE(engine_->Step(works_[i].spans, &consumer).ok());
      });
      AwaitWaiting(i);
    }
    return Status();
  };
  Run(works_[0]);
  engine_->Leave();
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(steps_, ElementsAre(ElementsAre(1), ElementsAre(2, 4, 5), ElementsAre(3)));
}

class Idle final : public StepTap {
 public:
  bool WantsStream(int) const override { return true; }
  bool WantsAttention(size_t) const override { return false; }
  Status TakeStream(const TappedStream&) override { return Status(); }
  Status TakeAttention(TappedAttention&) override { return Status(); }
};

// Taps are called on the thread that steps, and hold the step.
TEST_F(BatcherTest, ATappedSessionHasStepsOfItsOwn) {
  Idle tap;
  Make({.max_sessions = 4});
  for (size_t rows : {3, 4, 5, 6}) Add(rows);
  ASSERT_TRUE(sessions_[2]->SetTap(&tap).ok());
  RunBehindTheFirst();
  for (const Work& work : works_) ExpectDone(work);
  EXPECT_THAT(steps_, ElementsAre(ElementsAre(3), ElementsAre(4, 6), ElementsAre(5)));
}

// While the other one generates no step has more than a small piece of the prompt, and then it is read as if alone. Both take
// turns whether they like it or not: a step of one alone is held until the other one wants the next.
TEST_F(BatcherTest, APromptIsReadInSmallPiecesBesideAGeneration) {
  Make({.n_ctx = 2048, .max_sessions = 2, .chunk_tokens = 512, .share_prefixes = false});
  const auto prompt = NewSession(*engine_), generation = NewSession(*engine_);
  std::atomic<bool> started{false}, one_is_done{false};
  on_step = [&](std::span<const StepSpan> spans) {
    started = true;
    while (spans.size() == 1 && !one_is_done && engine_->waiting_calls() == 0) std::this_thread::yield();
    return Status();
  };
  std::thread generating([&] {
    for (const int32_t id : Ids(5, 3)) {
      const SessionSpan span{generation.get(), {&id, 1}, Outputs::kNone};
      EXPECT_TRUE(engine_->Step({&span, 1}, nullptr).ok());
    }
    engine_->Leave();
    one_is_done = true;
  });
  while (!started) std::this_thread::yield();
  RowsConsumer rows;
  const std::vector<int32_t> ids = Ids(1500);
  ASSERT_TRUE(engine_->Prefill(*prompt, ids, Outputs::kLast, &rows).ok());
  one_is_done = true;
  generating.join();
  EXPECT_EQ(rows.values[0], FakeLogits(ids));
  const auto generates = [](const std::vector<size_t>& step) { return step.front() == 1 || step.back() == 1; };
  const auto last = std::find_if(steps_.rbegin(), steps_.rend(), generates).base();
  EXPECT_GE(std::distance(steps_.begin(), last), 5);
  for (auto step = steps_.begin(); step != last; ++step) {
    for (const size_t span : *step) EXPECT_LE(span, Batcher::kPromptRows);
  }
  EXPECT_THAT(std::vector(last, steps_.end()), testing::Contains(ElementsAre(testing::Gt(Batcher::kPromptRows))));
}

// An encoder's text is one step, whoever else is there.
TEST_F(BatcherTest, AnEncodersTextIsNotCut) {
  Make({.max_sessions = 2});
  plan_->encoder = true;
  const auto session = NewSession(*engine_), other = NewSession(*engine_);
  std::thread reading;
  on_step = [&](std::span<const StepSpan>) {
    if (steps_.size() > 1) return Status();
    reading = std::thread([&] { EXPECT_TRUE(engine_->Prefill(*other, Ids(200, 2), Outputs::kNone, nullptr).ok()); });
    AwaitWaiting(1);
    return Status();
  };
  ASSERT_TRUE(engine_->Prefill(*session, Ids(100), Outputs::kNone, nullptr).ok());
  engine_->Leave();
  reading.join();
  EXPECT_THAT(steps_, ElementsAre(ElementsAre(100), ElementsAre(200)));
}

// All that calls can do beside each other; for the thread sanitizer, and for bits.
TEST_F(BatcherTest, ManyThreadsAtRandom) {
  constexpr uint32_t kThreads = 6;
  Make({.n_ctx = 300, .max_sessions = kThreads, .chunk_tokens = 100});
  std::atomic<bool> flags[kThreads] = {};
  std::atomic<size_t> done{0}, cancelled{0}, full{0};
  on_step = [&](std::span<const StepSpan>) {
    if (steps_.size() % 3 == 0) flags[steps_.size() / 3 % kThreads] = true;
    return Status();
  };
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      uint32_t random = t + 1;
      const auto below = [&](uint32_t n) { return (random = random * 1664525u + 1013904223u) / 256 % n; };
      const auto session = NewSession(*engine_);
      for (int round = 0; round < (kSlowed ? 60 : 300); ++round) {
        flags[t] = below(16) == 0;  // or set by some step
        const auto before = static_cast<size_t>(session->length());
        const std::vector<int32_t> ids = Ids(below(3) == 0 ? 1 + below(160) : 1, random);
        const Outputs outputs = below(8) == 0 ? Outputs::kAll : Outputs::kLast;
        RowsConsumer rows;
        const Status status = engine_->Prefill(*session, ids, outputs, &rows, &flags[t]);
        ASSERT_EQ(static_cast<size_t>(session->length()), before + (status.ok() ? ids.size() : 0));
        done += status.ok() ? 1 : 0;
        cancelled += status.code() == Code::kCancelled ? 1 : 0;
        full += status.code() == Code::kExhausted ? 1 : 0;
        if (status.ok()) {
          ASSERT_EQ(rows.values.size(), outputs == Outputs::kAll ? ids.size() : 1);
          ASSERT_EQ(rows.values.back(), FakeLogits(session->tokens()));
        } else if (status.code() == Code::kExhausted) {
          ASSERT_TRUE(session->Truncate(below(3)).ok());
        } else {
          ASSERT_EQ(status.code(), Code::kCancelled) << status.ToString();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(done, 0u);
  EXPECT_GT(cancelled, 0u);
  EXPECT_GT(full, 0u);
}

}  // namespace
}  // namespace moonlit
