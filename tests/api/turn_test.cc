// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/turn.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/slowed.h"

namespace moonlit::api {
namespace {

TEST(Turn, BelongsToOneAtATime) {
  Turn turn;
  EXPECT_TRUE(turn.Begin());
  EXPECT_FALSE(turn.Begin());
  turn.End();
  EXPECT_TRUE(turn.Begin());
}

TEST(Turn, BeginsUncancelled) {
  Turn turn;
  turn.Cancel();
  EXPECT_TRUE(turn.Begin());
  EXPECT_FALSE(turn.cancelled()->load());
  turn.Cancel();
  EXPECT_TRUE(turn.cancelled()->load());
  EXPECT_FALSE(turn.Begin());
  EXPECT_TRUE(turn.cancelled()->load()) << "who does not get it changes nothing";
}

// Who has been told that somebody else is busy, and cancels, ends that call and no other one.
TEST(Turn, WhoFoundItTakenCancelsThatCall) {
  Turn turn;
  std::atomic<int> call{0};  // odd: one has begun, or is about to
  std::atomic<bool> done{false};
  std::thread worker([&] {
    while (!done) {
      ++call;
      if (turn.Begin()) {
        while (!turn.cancelled()->load() && !done) {
        }
        turn.End();
      }
      ++call;
    }
  });
  const int rounds = kSlowed ? 200 : 20000;
  int lost = 0;
  for (int round = 0; round < rounds && lost == 0; ++round) {
    while (turn.Begin()) turn.End();
    const int found = call;
    turn.Cancel();
    for (int wait = 0; call == found && lost == 0; ++wait) {
      if (wait > 1000) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (wait == 60'000) lost = 1;
    }
  }
  EXPECT_EQ(lost, 0) << "the call goes on";
  done = true;
  worker.join();
}

}  // namespace
}  // namespace moonlit::api
