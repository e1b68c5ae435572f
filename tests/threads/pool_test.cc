// SPDX-License-Identifier: Apache-2.0
// Whatever would hang here (a starved barrier, a lost wake-up, a static split of tasks) ends as ctest's time limit.
#include "runtime/threads/pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/threads/make_stage.h"

namespace moonlit {
namespace {

std::unique_ptr<ThreadPool> MakePool(size_t threads, size_t spin = 0) {
  auto pool = ThreadPool::Create({.threads = threads, .spin_iterations = spin});
  EXPECT_TRUE(pool.ok()) << pool.status().ToString();
  return std::move(pool).value();
}

class PoolTest : public testing::TestWithParam<size_t> {};

// Plain (not atomic) counts: that they are right under the thread sanitizer shows both the claims and the barriers.
TEST_P(PoolTest, EveryTaskRunsOnceAndStagesAreOrdered) {
  const auto pool = MakePool(GetParam());
  ASSERT_EQ(pool->threads(), GetParam());
  std::vector<std::vector<int>> runs;
  for (size_t tasks : {0, 1, 1, 7, 100, 0, 1, 3, 1000, 1, 0}) runs.emplace_back(tasks);
  std::vector<long> sums(runs.size());
  struct Context {
    std::vector<std::vector<int>>* runs;
    std::vector<long>* sums;
    size_t stage;
    size_t threads;
  };
  std::vector<Context> contexts;
  for (size_t s = 0; s < runs.size(); ++s) contexts.push_back({&runs, &sums, s, GetParam()});
  std::vector<Stage> stages;
  for (Context& context : contexts) {
    stages.push_back({runs[context.stage].size(),
                      [](void* opaque, size_t task, size_t thread) {
                        Context& c = *static_cast<Context*>(opaque);
                        ASSERT_LT(thread, c.threads);
                        ++(*c.runs)[c.stage][task];
                        // Whoever runs task 0 adds up all earlier stages, whose tasks other threads ran.
                        if (task != 0) return;
                        for (size_t s = 0; s < c.stage; ++s) {
                          for (int n : (*c.runs)[s]) (*c.sums)[c.stage] += n;
                        }
                      },
                      &context});
  }
  for (int round = 1; round <= 50; ++round) {
    ASSERT_TRUE(pool->Run(stages).ok());
    for (const auto& stage : runs) {
      for (int n : stage) ASSERT_EQ(n, round);
    }
  }
  long before = 0;
  for (size_t s = 0; s < runs.size(); ++s) {
    ASSERT_EQ(sums[s], runs[s].empty() ? 0 : before * 50 * 51 / 2) << "stage " << s;
    before += static_cast<long>(runs[s].size());
  }
}

// The runs go in and out of the spin, yield and park phases.
TEST_P(PoolTest, ManyShortRuns) {
  const auto pool = MakePool(GetParam(), 1);
  std::vector<int> counts(5);
  auto count = [&](size_t task, size_t) { ++counts[task]; };
  const Stage stages[] = {MakeStage(5, count), MakeStage(2, count), MakeStage(1, count)};
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(pool->Run(stages).ok());
  EXPECT_EQ(counts, (std::vector<int>{6000, 4000, 2000, 2000, 2000}));
}

TEST_P(PoolTest, ASetFlagStopsBeforeAnyTask) {
  const auto pool = MakePool(GetParam());
  std::atomic<bool> abort{true};
  std::atomic<int> ran{0};
  auto run = [&](size_t, size_t) { ++ran; };
  const Stage stages[] = {MakeStage(1, run), MakeStage(50, run), MakeStage(1, run)};
  EXPECT_EQ(pool->Run(stages, &abort).code(), Code::kCancelled);
  EXPECT_EQ(ran, 0);
  abort = false;
  EXPECT_TRUE(pool->Run(stages, &abort).ok());
  EXPECT_EQ(ran, 52);
}

TEST_P(PoolTest, AFlagSetByATaskStopsTheRest) {
  const auto pool = MakePool(GetParam());
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> abort{false};
    std::atomic<size_t> ran{0}, later{0};
    auto set = [&](size_t, size_t) { ++ran, abort = true; };
    auto run = [&](size_t, size_t) { ++later; };
    const Stage stages[] = {MakeStage(1000, set), MakeStage(10, run), MakeStage(1, run)};
    EXPECT_EQ(pool->Run(stages, &abort).code(), Code::kCancelled);
    EXPECT_GE(ran, 1u);
    EXPECT_LE(ran, GetParam());  // each thread reads the flag before its next claim
    EXPECT_EQ(later, 0u);
  }
}

TEST_P(PoolTest, AnyOfSeveralFlagsStopsTheRun) {
  const auto pool = MakePool(GetParam());
  for (size_t set = 0; set < 3; ++set) {
    std::atomic<bool> flags[3] = {};
    const std::atomic<bool>* const all[] = {&flags[0], &flags[1], &flags[2]};
    std::atomic<size_t> ran{0};
    auto run = [&](size_t, size_t) { ++ran, flags[set] = true; };
    const Stage stage = MakeStage(1000, run);
    EXPECT_EQ(pool->Run({&stage, 1}, AbortFlags(all)).code(), Code::kCancelled);
    EXPECT_LE(ran, GetParam());
    auto count = [&](size_t, size_t) { ++ran; };
    const Stage rest = MakeStage(10, count);
    EXPECT_TRUE(pool->Run({&rest, 1}, AbortFlags(std::span(all).first(set))).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, PoolTest, testing::Values(1, 2, 3, 4, 16));

// The thread that got task 0 is so slow that all others must be finished by its peers.
TEST(Pool, ASlowThreadTakesFewerTasks) {
  const auto pool = MakePool(3);
  std::atomic<size_t> others{0};
  std::atomic<size_t> slow_thread{99};
  std::vector<size_t> owner(100);
  auto run = [&](size_t task, size_t thread) {
    owner[task] = thread;
    if (task != 0) {
      ++others;
      return;
    }
    slow_thread = thread;
    while (others != 99) std::this_thread::yield();
  };
  const Stage stage = MakeStage(100, run);
  ASSERT_TRUE(pool->Run({&stage, 1}).ok());
  EXPECT_EQ(std::count(owner.begin(), owner.end(), slow_thread.load()), 1);
}

TEST(Pool, SingleTasksStayWithTheCaller) {
  const auto pool = MakePool(4);
  const auto caller = std::this_thread::get_id();
  int ran = 0;
  auto run = [&](size_t, size_t thread) {
    ++ran;
    EXPECT_EQ(thread, 0u);
    EXPECT_EQ(std::this_thread::get_id(), caller);
  };
  const Stage stages[] = {MakeStage(1, run), MakeStage(1, run), MakeStage(1, run)};
  ASSERT_TRUE(pool->Run(stages).ok());
  EXPECT_EQ(ran, 3);
}

// Callers from several threads are served one after the other.
TEST(Pool, CallersAreSerialised) {
  const auto pool = MakePool(2);
  std::vector<int> counts(64);  // not atomic: two runs at once would be a race
  auto count = [&](size_t task, size_t) { ++counts[task]; };
  const Stage stages[] = {MakeStage(64, count), MakeStage(64, count)};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round) EXPECT_TRUE(pool->Run(stages).ok());
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(counts, std::vector<int>(64, 800));
}

// An idle pool sleeps. The kernel shows each of its threads in state S for as long as nobody runs
// anything.
TEST(Pool, IdleThreadsSleep) {
  const auto pool = MakePool(4);
  auto nothing = [](size_t, size_t) {};
  const Stage stage = MakeStage(8, nothing);
  ASSERT_TRUE(pool->Run({&stage, 1}).ok());
  const std::string own = std::to_string(gettid());
  auto awake = [&] {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream file(entry.path() / "stat");
      std::string line;
      std::getline(file, line);
      const size_t name_end = line.rfind(") ");
      const bool sleeps = name_end != std::string::npos && line[name_end + 2] == 'S';
      if (!sleeps && entry.path().filename() != own) ++count;
    }
    return count;
  };
  while (awake() != 0) std::this_thread::yield();
}

TEST(Pool, ZeroMeansTheDefaultAndTooManyIsAnError) {
  EXPECT_GE(MakePool(0)->threads(), 1u);
  const auto pool = ThreadPool::Create({.threads = 100000});
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.status().code(), Code::kInvalidArgument);
  EXPECT_NE(pool.status().ToString().find("100000"), std::string::npos);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Pool, ARefusedThreadIsAStatus) {
  constexpr int kNotLimited = 3;  // user-mode emulators ignore the limit
  // In a child process, with no address space left for a thousand stacks.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    rlimit limit{size_t{256} << 20, size_t{256} << 20};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    const size_t more = size_t{512} << 20;
    if (mmap(nullptr, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) _exit(kNotLimited);
    const auto pool = ThreadPool::Create({.threads = 1000});
    _exit(!pool.ok() && pool.status().code() == Code::kOutOfMemory ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotLimited) GTEST_SKIP() << "this system does not limit the address space";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

}  // namespace
}  // namespace moonlit
