// SPDX-License-Identifier: Apache-2.0
// What a load tells while its tasks end on any thread, in any order.
#include "runtime/exec/load_progress.h"

#include <cstdint>
#include <functional>
#include <new>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonlit {
namespace {

using testing::ElementsAre;
using testing::Pair;

class LoadProgressTest : public testing::Test {
 protected:
  std::vector<std::pair<uint64_t, uint64_t>> told_;
  bool go_on_ = true;
  const std::function<bool(uint64_t, uint64_t)> report_ = [this](uint64_t done, uint64_t total) {
    told_.emplace_back(done, total);
    return go_on_;
  };
  LoadProgress progress_{&report_, 100};
};

TEST_F(LoadProgressTest, TellsTheEndThoughOtherThreadsDidAll) {
  progress_.Add(60, 1);
  progress_.Add(40, 2);
  EXPECT_TRUE(told_.empty());  // reports come from the loading thread alone
  EXPECT_TRUE(progress_.Finish(Status()).ok());
  EXPECT_THAT(told_, ElementsAre(Pair(100, 100)));
}

TEST_F(LoadProgressTest, TellsTheEndOnce) {
  progress_.Add(60, 0);
  progress_.Add(40, 0);
  EXPECT_TRUE(progress_.Finish(Status()).ok());
  EXPECT_THAT(told_, ElementsAre(Pair(60, 100), Pair(100, 100)));
}

TEST_F(LoadProgressTest, CanBeCancelledUpToTheEnd) {
  go_on_ = false;
  progress_.Add(100, 1);
  EXPECT_EQ(progress_.Finish(Status()).code(), Code::kCancelled);
}

TEST_F(LoadProgressTest, TellsNoEndAfterAFault) {
  progress_.Add(60, 1);
  progress_.Fail(Status(Code::kCorrupt, "a bad tensor"));
  EXPECT_EQ(progress_.Finish(Status()).code(), Code::kCorrupt);
  EXPECT_TRUE(told_.empty());
}

TEST_F(LoadProgressTest, TellsNoEndWhereTheRunFailed) {
  EXPECT_EQ(progress_.Finish(Status(Code::kCancelled, "stopped")).code(), Code::kCancelled);
  EXPECT_TRUE(told_.empty());
}

// A task must not throw: other threads still write to what an unwinding load would free.
TEST(LoadProgress, WhatAReportThrowsComesFromFinishAlone) {
  int calls = 0;
  const std::function<bool(uint64_t, uint64_t)> report = [&calls](uint64_t, uint64_t) -> bool {
    ++calls;
    throw 7;
  };
  LoadProgress progress(&report, 100);
  EXPECT_NO_THROW(progress.Add(60, 0));
  EXPECT_TRUE(progress.stop()->load());
  EXPECT_NO_THROW(progress.Add(40, 0));
  EXPECT_EQ(calls, 1);
  progress.Fail(Status(Code::kCorrupt, "a bad tensor"));  // comes later and counts no more
  try {
    progress.Finish(Status(Code::kCancelled, "stopped")).ok();
    ADD_FAILURE() << "Finish returned";
  } catch (int thrown) {
    EXPECT_EQ(thrown, 7);
  }
}

TEST(LoadProgress, TheLastReportMayThrowToo) {
  const std::function<bool(uint64_t, uint64_t)> report = [](uint64_t, uint64_t) -> bool { throw std::bad_alloc(); };
  LoadProgress progress(&report, 100);
  progress.Add(100, 1);
  EXPECT_THROW(progress.Finish(Status()).ok(), std::bad_alloc);
}

TEST(LoadProgress, NeedsNobodyToTell) {
  LoadProgress progress(nullptr, 100);
  progress.Add(60, 0);
  EXPECT_TRUE(progress.Finish(Status()).ok());
}

}  // namespace
}  // namespace moonlit
