// SPDX-License-Identifier: Apache-2.0
// A call whose bookkeeping's memory runs out at each place in turn.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/api/moonlit.h"
#include "tests/support/failing_new.h"
#include "tests/support/slowed.h"

namespace moonlit::test {

// Whether a call leaves as many blocks behind as there were before.
enum class Leaves { kNothing, kWhatOthersMayTake };

// Runs `body` with operator new failing at the nth call, for rising n until it succeeds: every n at first, then with gaps. `after`, when
// there is memory again, looks at what it has left.
inline void FailAtEach(
    Failing failing, Leaves leaves, const std::function<moonlit_code(moonlit_error*)>& body,
    const std::function<void(moonlit_code)>& after = [](moonlit_code) {}) {
  moonlit_error error = {};
  ASSERT_EQ(body(&error), MOONLIT_OK) << error.message;  // what is made once in a process is there now
  const size_t dense = kSlowed ? 8 : 200;
  for (size_t n = 1;; n += 1 + n / dense) {
    const int64_t before = LiveBlocks();
    error = {};
    ArmNew(n, failing);
    const moonlit_code code = body(&error);
    const bool failed = DisarmNew();
    after(code);
    if (leaves == Leaves::kNothing) {
      ASSERT_EQ(LiveBlocks(), before) << "failing at call " << n;
    }
    if (code == MOONLIT_OK) {
      // What is only there for others' good may be left out.
      if (!failed) return;
      continue;
    }
    ASSERT_TRUE(failed) << error.message;
    ASSERT_EQ(code, MOONLIT_OUT_OF_MEMORY) << "failing at call " << n << ": " << error.message;
    ASSERT_EQ(error.code, code);
    ASSERT_STRNE(error.message, "");
  }
}

// Both ways that memory ends, for INSTANTIATE_TEST_SUITE_P.
inline const auto kFailings = testing::Values(Failing::kOnce, Failing::kForGood);
inline constexpr auto kFailingName = [](const auto& info) {
  return std::string(info.param == Failing::kOnce ? "Once" : "ForGood");
};

}  // namespace moonlit::test
