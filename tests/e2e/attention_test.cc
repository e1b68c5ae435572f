// SPDX-License-Identifier: Apache-2.0
// `moonlit attention` from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/process.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kLlama = MOONLIT_SOURCE_DIR "/tests/data/golden/llama/model.gguf";

Outcome See(const std::vector<std::string>& flags, const RunOptions& options = {}) {
  std::vector<std::string> all = {"attention", "-m", kLlama};
  all.insert(all.end(), flags.begin(), flags.end());
  return RunMoonlit(all, options);
}

TEST(Attention, PrintsATableWithItsChecks) {
  const Outcome run = See({"--ids", "1,2,3", "--layer", "0", "--head", "1"});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("layer 0, head 1"));
  EXPECT_THAT(run.out, HasSubstr("\n    0  1.00     .     .   1.00  "));
  EXPECT_THAT(run.out, HasSubstr("[ok]    every row of weights sums to 1"));
  EXPECT_THAT(run.out, HasSubstr("[ok]    nothing above the diagonal"));
  EXPECT_THAT(run.out, HasSubstr("[ok]    weights times values is what the fused kernel gave"));
  EXPECT_THAT(run.out, Not(HasSubstr("[WRONG]")));
}

TEST(Attention, SaysHowToSeeMore) {
  EXPECT_THAT(See({"--ids", "1,2,3"}).out, HasSubstr("--layer and --head print tables"));
  EXPECT_THAT(See({"--ids", "1,2,3", "--layer", "0"}).out, Not(HasSubstr("print tables")));
}

TEST(Attention, EntropyAndTop) {
  const Outcome run = See({"-p", "a moon", "--entropy", "--top", "3", "--head", "0"});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("entropy (bits"));
  EXPECT_THAT(run.out, HasSubstr(" -> "));
}

TEST(Attention, FilesAreTheSameForAnyThreadsAndChunks) {
  const TempFolder folder;
  const std::string page = folder.path() + "/a.html", drawing = folder.path() + "/a.svg";
  const std::string again = folder.path() + "/b.html", drawn_again = folder.path() + "/b.svg";
  const std::string text = "</script><script>alert(1)</script> \"\xE5\xBA\x8A\xE5\x89\x8D\" \xFF\xE5";
  const Outcome first = See({"-p", text, "--html", page, "--svg", drawing, "-t", "1"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  ASSERT_EQ(See({"-p", text, "--html", again, "--svg", drawn_again, "-t", "3", "--ub", "5"}).exit_code, 0);
  EXPECT_EQ(ReadWholeFile(page), ReadWholeFile(again));
  EXPECT_EQ(ReadWholeFile(drawing), ReadWholeFile(drawn_again));
  EXPECT_THAT(ReadWholeFile(page), Not(HasSubstr("<script>alert")));
  EXPECT_THAT(ReadWholeFile(drawing), HasSubstr("<svg xmlns="));
  EXPECT_EQ(folder.FileCount(), 4u) << "no temporary file is left";
}

TEST(Attention, AQuantizedCacheAndASparseWindowHoldTheirBounds) {
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"--ctk", "q8_0", "--ctv", "q8_0"},
                                             {"--ctk", "bf16", "--ctv", "bf16"},
                                             {"--ctk", "f16", "--ctv", "f16"},
                                             {"--attention-window", "3", "--attention-sinks", "1"}}) {
    std::vector<std::string> all = {"-p", "the moon over the sea, and the sea under the moon"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome run = See(all);
    EXPECT_EQ(run.exit_code, 0) << flags[1] << run.out << run.err;
  }
}

TEST(Attention, SaysWhatIsWrong) {
  const TempFolder folder;
  const std::string text = folder.Write("text", "some words");
  const struct {
    std::vector<std::string> flags;
    int exit_code;
    const char* words;
  } cases[] = {
      {{"--ids", "1,2", "--layer", "99"}, 2, "--layer 99"},
      {{"--ids", "1,2", "--head", "99"}, 2, "--head 99"},
      {{"--ids", "1,2", "--head", "x"}, 2, "--head"},
      {{"--ids", "1,2", "--top", "0"}, 2, "--top"},
      {{"--ids", ""}, 2, "no tokens"},
      {{"--ids", "1,2", "--html", ""}, 2, "--html"},
      {{"--ids", "1,2", "-c", "1"}, 1, "--ctx-size"},
      {{"--ids", "1,2", "--attention-pages", "2"}, 2, "--attention-pages"},
      {{"--ids", "1,2", "--html", folder.path() + "/x", "--svg", folder.path() + "/x"}, 2, "two files"},
      {{"--ids", "1,2", "--html", folder.path() + "/none/x"}, 1, "none"},
      {{"--ids", "1,2", "--svg", kLlama}, 2, "model.gguf"},
      {{"-f", text, "--html", text}, 2, "text"},
  };
  for (const auto& wrong : cases) {
    const Outcome run = See(wrong.flags);
    EXPECT_EQ(run.exit_code, wrong.exit_code) << wrong.words << ": " << run.err;
    EXPECT_THAT(run.err, HasSubstr(wrong.words));
  }
  EXPECT_EQ(ReadWholeFile(text), "some words");
  EXPECT_EQ(folder.FileCount(), 1u);
}

}  // namespace
}  // namespace moonlit::test
