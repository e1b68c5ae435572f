// SPDX-License-Identifier: Apache-2.0
// What the command does with a full context, and with attention that leaves parts of it out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/process.h"

namespace moonlit::test {
namespace {

using testing::HasSubstr;

// The same text for any threads and prefill steps, beginning as one in a context that holds all of it.
TEST(Context, AContextShiftGoesOn) {
  const auto run = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"generate", "-p", "床前明月", "--temp", "0", "--ignore-eos", "-n", "400"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunMoonlit(arguments);
  };
  const Outcome shifted = run({"-c", "192", "--context-shift", "-t", "1"});
  EXPECT_EQ(shifted.exit_code, 0) << shifted.err;
  EXPECT_THAT(shifted.err, HasSubstr("decode 400 tokens"));
  EXPECT_THAT(shifted.err, HasSubstr("4 context shifts"));
  const Outcome other = run({"-c", "192", "--context-shift", "-t", "2", "--ub", "16", "--keep", "64"});
  EXPECT_EQ(other.out, shifted.out);
  const Outcome whole = run({"-c", "512"});
  EXPECT_EQ(whole.out.substr(0, 100), shifted.out.substr(0, 100));
  const Outcome narrow = run({"-c", "128", "--context-shift"});
  EXPECT_EQ(narrow.exit_code, 2);
  EXPECT_THAT(narrow.err, HasSubstr("expected at least 192"));
  const Outcome broad = run({"-c", "192", "--context-shift", "--keep", "65"});
  EXPECT_EQ(broad.exit_code, 2);
  EXPECT_THAT(broad.err, HasSubstr("expected at least 256"));
}

// Sparse attention that covers the text is none; other is told apart, and what can't be is refused.
TEST(Context, SparseAttention) {
  const auto run = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"generate", "-p", "床前明月", "--temp", "0", "--ignore-eos", "-n", "250"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunMoonlit(arguments);
  };
  const Outcome dense = run({});
  EXPECT_EQ(dense.exit_code, 0) << dense.err;
  EXPECT_EQ(run({"--attention-window", "4000", "--attention-sinks", "4"}).out, dense.out);
  EXPECT_EQ(run({"--attention-pages", "5"}).out, dense.out);
  const Outcome window = run({"--attention-window", "16"});
  EXPECT_EQ(window.exit_code, 0) << window.err;
  EXPECT_NE(window.out, dense.out);
  EXPECT_EQ(run({"--attention-sinks", "4"}).exit_code, 2);
  EXPECT_EQ(run({"--attention-window", "16", "--attention-pages", "4"}).exit_code, 2);
  const Outcome sinks = run({"--attention-window", "16", "--attention-sinks", "65"});
  EXPECT_EQ(sinks.exit_code, 2);
  EXPECT_THAT(sinks.err, HasSubstr("64 tokens"));
}

}  // namespace
}  // namespace moonlit::test
