// SPDX-License-Identifier: Apache-2.0
// Pools of an application's threads: whatever its loop does with the indices, every task runs once and stages are ordered. What would
// hang here ends as ctest's time limit.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "runtime/threads/pool.h"
#include "tests/threads/make_stage.h"
#include "tests/threads/parallel_loops.h"

namespace moonlit {
namespace {

using test::kLoops;
using test::LoopKind;

constexpr size_t kThreads = 3;

std::unique_ptr<ThreadPool> Borrow(const LoopKind& kind, void* user = nullptr) {
  auto pool = ThreadPool::Create({.threads = kThreads, .loop = {kind.run, user}});
  EXPECT_TRUE(pool.ok()) << pool.status().ToString();
  return std::move(pool).value();
}

class BorrowedPool : public testing::TestWithParam<LoopKind> {};

// Plain (not atomic) counts and scratch: the thread sanitizer sees two tasks of one thread number at once, and a stage that
// begins before the one before has ended.
TEST_P(BorrowedPool, EveryTaskRunsOnceAndStagesAreOrdered) {
  const auto pool = Borrow(GetParam());
  EXPECT_EQ(pool->threads(), kThreads);
  std::vector<std::vector<int>> runs;
  for (size_t tasks : {0, 1, 7, 2, 100, 0, 1, 3}) runs.emplace_back(tasks);
  std::vector<size_t> scratch(kThreads);
  struct Context {
    std::vector<std::vector<int>>* runs;
    std::vector<size_t>* scratch;
    size_t stage;
  };
  std::vector<Context> contexts;
  for (size_t s = 0; s < runs.size(); ++s) contexts.push_back({&runs, &scratch, s});
  std::vector<Stage> stages;
  for (Context& context : contexts) {
    stages.push_back({runs[context.stage].size(),
                      [](void* opaque, size_t task, size_t thread) {
                        const Context& c = *static_cast<Context*>(opaque);
                        ASSERT_LT(thread, kThreads);
                        ++(*c.scratch)[thread];
                        const int round = ++(*c.runs)[c.stage][task];
                        for (size_t s = 0; s < c.stage; ++s) {
                          for (int n : (*c.runs)[s]) ASSERT_EQ(n, round) << "stage " << s << " has not ended";
                        }
                      },
                      &context});
  }
  for (int round = 1; round <= 20; ++round) {
    ASSERT_TRUE(pool->Run(stages).ok());
    for (const auto& stage : runs) {
      for (int n : stage) ASSERT_EQ(n, round);
    }
  }
}

TEST_P(BorrowedPool, AFlagStopsTheRest) {
  const auto pool = Borrow(GetParam());
  std::atomic<bool> abort{true};
  std::atomic<size_t> ran{0}, later{0};
  auto set = [&](size_t, size_t) { ++ran, abort = true; };
  auto run = [&](size_t, size_t) { ++later; };
  const Stage stages[] = {MakeStage(1000, set), MakeStage(10, run), MakeStage(1, run)};
  EXPECT_EQ(pool->Run(stages, &abort).code(), Code::kCancelled);
  EXPECT_EQ(ran, 0u);
  abort = false;
  EXPECT_EQ(pool->Run(stages, &abort).code(), Code::kCancelled);
  EXPECT_GE(ran, 1u);
  EXPECT_LE(ran, kThreads);
  EXPECT_EQ(later, 0u);
  abort = false;
  EXPECT_TRUE(pool->Run(std::span(stages).last(2), &abort).ok());
  EXPECT_EQ(later, 11u);
}

INSTANTIATE_TEST_SUITE_P(Loops, BorrowedPool, testing::ValuesIn(kLoops),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(BorrowedPoolCalls, AreOneAStageOfSeveralTasks) {
  std::vector<size_t> counts;
  const LoopKind kind = {"", [](void* user, size_t count, test::LoopTask task, void* data) {
                           static_cast<std::vector<size_t>*>(user)->push_back(count);
                           test::RunSerial(nullptr, count, task, data);
                         }};
  const auto pool = Borrow(kind, &counts);
  auto nothing = [](size_t, size_t) {};
  const Stage stages[] = {MakeStage(2, nothing), MakeStage(1, nothing), MakeStage(0, nothing), MakeStage(50, nothing)};
  ASSERT_TRUE(pool->Run(stages).ok());
  EXPECT_EQ(counts, (std::vector<size_t>{2, kThreads})) << "never more indices than tasks or threads";
}

TEST(BorrowedPoolCalls, CallersAreSerialised) {
  const auto pool = Borrow({"", &test::RunOnThreads});
  std::vector<int> counts(8);  // not atomic: two runs at once would be a race
  auto count = [&](size_t task, size_t) { ++counts[task]; };
  const Stage stages[] = {MakeStage(8, count), MakeStage(8, count)};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 5; ++round) EXPECT_TRUE(pool->Run(stages).ok());
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(counts, std::vector<int>(8, 30));
}

TEST(BorrowedPoolCalls, ZeroThreadsMeanTheDefaultAndTooManyAreAnError) {
  EXPECT_GE(ThreadPool::Create({.threads = 0, .loop = {&test::RunSerial, nullptr}}).value()->threads(), 1u);
  EXPECT_EQ(ThreadPool::Create({.threads = 100000, .loop = {&test::RunSerial, nullptr}}).status().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace moonlit
