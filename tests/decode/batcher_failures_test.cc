// SPDX-License-Identifier: Apache-2.0
// Steps that end by an exception, or while memory runs out: each call ends, the others have what they asked for, and nobody waits for
// ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <utility>

#include "tests/decode/batcher_fixture.h"
#include "tests/support/failing_new.h"

namespace moonlit {
namespace {

using testing::ElementsAre;

class BatcherFailures : public BatcherTest {
 protected:
  void Clear() {
    works_.clear();
    steps_.clear();
    sessions_.clear();
    ids_.clear();
  }

  // That the next step runs, and what it gives.
  void ExpectWorks() {
    on_step = nullptr;
    Work& work = Add(3);
    Run(work);
    ExpectDone(work);
  }
};

// What an application's consumer throws is its own thread's affair.
TEST_F(BatcherFailures, AThrowingConsumerLeavesNobodyWaiting) {
  Make({.max_sessions = 3});
  for (size_t rows : {3, 4, 5}) Add(rows);
  Calling throwing([] { throw std::runtime_error("no"); });
  EXPECT_THROW(static_cast<void>(engine_->Step(works_[0].spans, &throwing)), std::runtime_error);
  EXPECT_EQ(works_[0].spans[0].session->length(), 0);
  steps_.clear();
  RunBehindTheFirst();
  for (const Work& work : works_) ExpectDone(work);
}

// Alone it would wait for itself, and with another model for a thread that may wait for this one. In company it could run, but nobody can
// rely on company.
TEST_F(BatcherFailures, AConsumerMustNotEvaluate) {
  Make({.max_sessions = 6});
  for (size_t rows : {3, 4, 5}) Add(rows);
  const auto inner = NewSession(*engine_);
  const auto other_engine = MakeFakeEngine();
  const auto other = NewSession(*other_engine);
  size_t refused = 0;
  Calling evaluating([&] {
    const std::vector<int32_t> ids = Ids(2);
    const Status step = engine_->Prefill(*inner, ids, Outputs::kNone, nullptr);
    EXPECT_EQ(step.code(), Code::kInvalidArgument);
    EXPECT_THAT(step.ToString(), testing::HasSubstr("must not evaluate"));
    EXPECT_EQ(inner->length(), 0);
    EXPECT_EQ(other_engine->Prefill(*other, ids, Outputs::kNone, nullptr).code(), Code::kInvalidArgument);
    EXPECT_EQ(other->length(), 0);
    ++refused;
  });
  EXPECT_TRUE(engine_->Step(works_[0].spans, &evaluating).ok());
  EXPECT_EQ(refused, 1u);
  std::vector<std::thread> threads;
  on_step = [&](std::span<const StepSpan>) {
    if (!threads.empty()) return Status();
    threads.emplace_back([&] { EXPECT_TRUE(engine_->Step(works_[1].spans, &evaluating).ok()); });
    AwaitWaiting(1);
    threads.emplace_back([&] { Run(works_[2]); });
    AwaitWaiting(2);
    return Status();
  };
  Work& first = Add(1);
  Run(first);
  engine_->Leave();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 2u);
  ExpectDone(works_[2]);
  ExpectWorks();
  EXPECT_TRUE(engine_->Prefill(*inner, Ids(2), Outputs::kNone, nullptr).ok()) << "afterwards";
  EXPECT_TRUE(other_engine->Prefill(*other, Ids(2), Outputs::kNone, nullptr).ok());
}

TEST_F(BatcherFailures, ARefusedStepWithoutMemoryEndsAlone) {
  Make({.max_sessions = 2});
  bool failed = true;
  for (size_t n = 1; failed; ++n) {
    Work& work = Add(3);
    on_step = [&](std::span<const StepSpan>) {
      ArmNew(n, Failing::kOnce);
      return Status(Code::kUnsupported, "a reason that has its own memory");
    };
    Run(work);
    failed = DisarmNew();
    ExpectUntouched(work, failed ? Code::kOutOfMemory : Code::kUnsupported);
    ExpectWorks();
    Clear();
  }
}

TEST_F(BatcherFailures, ACancelledStepWithoutMemoryEndsAlone) {
  Make({.max_sessions = 2});
  bool failed = true;
  for (size_t n = 1; failed; ++n) {
    Work& work = Add(3);
    on_step = [&](std::span<const StepSpan>) {
      work.abort = true;
      ArmNew(n, Failing::kOnce);
      return Status();
    };
    Run(work);
    failed = DisarmNew();
    ExpectUntouched(work, failed ? Code::kOutOfMemory : Code::kCancelled);
    ExpectWorks();
    Clear();
  }
}

// The call that needed the memory may get kOutOfMemory, whichever it is, and no other one.
TEST_F(BatcherFailures, ACancelledCallWithoutMemoryLeavesTheOthersTheirStep) {
  Make({.max_sessions = 5});
  for (size_t cancelled : {1, 2}) {
    bool failed = true;
    for (size_t n = 1; failed; ++n) {
      for (size_t rows : {3, 4, 5, 6}) Add(rows);
      bool armed = false;
      on_step = [&](std::span<const StepSpan> spans) {
        if (spans.size() == 3 && !std::exchange(armed, true)) {
          works_[cancelled].abort = true;
          ArmNew(n, Failing::kOnce);
        }
        return Status();
      };
      RunBehindTheFirst();
      failed = DisarmNew();
      size_t without = 0;
      for (size_t i = 0; i < 4; ++i) {
        if (works_[i].status.code() == Code::kOutOfMemory) {
          ++without;  // before its step, or in its consumer after it
        } else {
          i == cancelled ? ExpectUntouched(works_[i], Code::kCancelled) : ExpectDone(works_[i]);
        }
      }
      EXPECT_LE(without, failed ? 1u : 0u) << n;
      ExpectWorks();
      Clear();
    }
  }
}

TEST_F(BatcherFailures, WhatASharedStepThrowsIsFoundOutAlone) {
  Make({.max_sessions = 5});
  for (size_t rows : {3, 4, 5, 6}) Add(rows);
  on_step = [&](std::span<const StepSpan> spans) -> Status {
    for (const StepSpan& span : spans) {
      if (span.tokens.size() == 5) throw std::bad_alloc();
    }
    return Status();
  };
  RunBehindTheFirst();
  for (size_t i : {0, 1, 3}) ExpectDone(works_[i]);
  ExpectUntouched(works_[2], Code::kOutOfMemory);
  EXPECT_THAT(steps_,
              ElementsAre(ElementsAre(3), ElementsAre(4, 5, 6), ElementsAre(4), ElementsAre(5), ElementsAre(6)));
  ExpectWorks();
}

// To go back takes no memory.
TEST_F(BatcherFailures, APrefillWithoutMemoryGoesBackToItsStart) {
  Make({.n_ctx = 2000, .max_sessions = 2, .chunk_tokens = 16});
  const auto session = NewSession(*engine_);
  ASSERT_TRUE(engine_->Prefill(*session, Ids(300), Outputs::kNone, nullptr).ok());
  const auto progress = [](size_t done) {
    if (done < 700) return;
    ArmNew(1, Failing::kForGood);
    throw std::bad_alloc();
  };
  EXPECT_THROW(static_cast<void>(engine_->Prefill(*session, Ids(1000, 5), Outputs::kNone, nullptr, nullptr, progress)),
               std::bad_alloc);
  DisarmNew();
  EXPECT_EQ(session->length(), 300);
  ExpectWorks();
}

}  // namespace
}  // namespace moonlit
