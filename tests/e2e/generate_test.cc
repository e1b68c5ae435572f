// SPDX-License-Identifier: Apache-2.0
// moonlit generate from outside: prompts, limits, seeds, and what it says of itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/e2e/process.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kGolden = MOONLIT_SOURCE_DIR "/tests/data/golden/";

TEST(Generate, GreedyVerseGoesOnAsTheModelWasTrained) {
  const Outcome run = RunMoonlit({"generate", "-p", "床前明月", "--temp", "0"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "光，疑是地上霜。\n举头望明月，低头思故乡。\n");
  EXPECT_THAT(run.err, HasSubstr("decode"));
}

TEST(Generate, SameSeedSameText) {
  const std::vector<std::string> flags = {"generate", "-p", "春江潮水", "--seed", "7", "-n", "24"};
  const Outcome first = RunMoonlit(flags), second = RunMoonlit(flags);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_FALSE(first.out.empty());
  EXPECT_EQ(first.out, second.out);
  bool some_seed_differs = false;
  for (const char* seed : {"8", "9", "10"}) {
    some_seed_differs |= RunMoonlit({"generate", "-p", "春江潮水", "--seed", seed, "-n", "24"}).out != first.out;
  }
  EXPECT_TRUE(some_seed_differs);
}

TEST(Generate, PromptFromStandardInputAndFile) {
  RunOptions with_input;
  with_input.input = "床前明月";
  const Outcome piped = RunMoonlit({"generate", "--temp", "0", "-n", "1"}, with_input);
  EXPECT_EQ(piped.exit_code, 0) << piped.err;
  EXPECT_EQ(piped.out, "光\n");
  const std::string path = ::testing::TempDir() + "moonlit_prompt.txt";
  std::ofstream(path) << "床前明月";
  EXPECT_EQ(RunMoonlit({"generate", "-f", path, "--temp", "0", "-n", "1"}).out, "光\n");
}

TEST(Generate, StopStringIsNotPrinted) {
  const Outcome run = RunMoonlit({"generate", "-p", "床前明月", "--temp", "0", "-s", "地上"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "光，疑是\n");
}

// What a stop string held back leaves before the text ends: the last two bytes of the character begin one here.
TEST(Generate, AHeldBackCharacterComesOutWhole) {
  for (const char* stop : {"\x85\x89zz", "\x89z", "光z"}) {
    const Outcome run = RunMoonlit({"generate", "-p", "床前明月", "--temp", "0", "-n", "1", "-s", stop});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out, "光\n");
  }
}

TEST(Generate, PromptsAreReadAsPeopleWriteThem) {
  RunOptions from_an_editor;
  from_an_editor.input = "床前明月\n";
  EXPECT_EQ(RunMoonlit({"generate", "--temp", "0", "-n", "1"}, from_an_editor).out, "光\n");
  const Outcome escaped = RunMoonlit({"generate", "--echo", "-p", "a\\nb\\x21\\q", "-n", "1", "--temp", "0"});
  EXPECT_THAT(escaped.out, StartsWith("a\nb!\\q"));
  const Outcome verbatim = RunMoonlit({"generate", "--echo", "-p", "a\\nb", "-n", "1", "--temp", "0", "--no-escape"});
  EXPECT_THAT(verbatim.out, StartsWith("a\\nb"));
}

TEST(Generate, NoTokensWantedNoneMade) {
  const Outcome run = RunMoonlit({"generate", "-p", "床前明月", "-n", "0"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "");
}

TEST(Generate, SeedOfARandomRunRepeatsIt) {
  const Outcome first = RunMoonlit({"generate", "-p", "春", "-n", "12", "--temp", "2"});
  const size_t at = first.err.find("seed ");
  ASSERT_NE(at, std::string::npos) << first.err;
  const std::string seed = first.err.substr(at + 5, first.err.find_first_not_of("0123456789", at + 5) - at - 5);
  EXPECT_EQ(RunMoonlit({"generate", "-p", "春", "-n", "12", "--temp", "2", "--seed", seed}).out, first.out);
}

TEST(Generate, WarnsWhenTheContextIsLongerThanTheModelWasTrainedFor) {
  EXPECT_THAT(RunMoonlit({"generate", "-p", "春", "-n", "1", "-c", "1024"}).err, HasSubstr("trained for"));
  EXPECT_EQ(RunMoonlit({"generate", "-p", "春", "-n", "1", "-c", "256"}).err.find("trained for"), std::string::npos);
}

TEST(Generate, AStopStringInBracketsIsTakenAsItIs) {
  EXPECT_EQ(RunMoonlit({"generate", "-p", "床前明月", "--temp", "0", "-s", "[疑]", "-s", "地上"}).out, "光，疑是\n");
}

TEST(Generate, InputThatIsNoTextIsRefused) {
  for (const char* path : {MOONLIT_SOURCE_DIR, "/no/such/file"}) {
    const Outcome run = RunMoonlit({"generate", "-f", path});
    EXPECT_EQ(run.exit_code, 1) << path;
    EXPECT_THAT(run.err, HasSubstr(path));
  }
}

TEST(Generate, PromptBeyondTheContextIsAnErrorWithBothNumbers) {
  RunOptions options;
  for (int i = 0; i < 300; ++i) options.input += "月";
  const Outcome run = RunMoonlit({"generate", "-c", "64", "--temp", "0"}, options);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("64"));
  EXPECT_THAT(run.err, HasSubstr("301"));
  EXPECT_THAT(run.err, HasSubstr("--ctx-size"));
}

TEST(Generate, InterruptStopsCleanly) {
  RunOptions options;
  options.interrupts = 1;
  const Outcome run = RunMoonlit({"generate", "-p", "春江", "--ignore-eos", "-c", "4096", "-n", "100000"}, options);
  EXPECT_EQ(run.exit_code, 130) << run.err;
  EXPECT_FALSE(run.out.empty());
}

TEST(Generate, AnEmptyPromptBeginsAText) {
  const Outcome run = RunMoonlit({"generate", "-p", "", "-n", "8", "--temp", "0"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_GT(run.out.size(), 1u);
  EXPECT_THAT(run.err, HasSubstr("prefill 1 tokens"));
}

TEST(Generate, WithoutALimitTheModelEndsOrTheContextIsFull) {
  const Outcome ended = RunMoonlit({"generate", "-p", "床前明月", "--temp", "0", "-n", "-1"});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("end of text"));
  const Outcome full =
      RunMoonlit({"generate", "-p", "床前明月", "--temp", "0", "-n", "-1", "--ignore-eos", "-c", "64"});
  EXPECT_EQ(full.exit_code, 0) << full.err;
  EXPECT_THAT(full.err, HasSubstr("context full (--context-shift goes on"));
}

// Also when the first piece of text can't be written, long before the end.
TEST(Generate, SaysWhyTextIsLost) {
  RunOptions full;
  full.output_to = "/dev/full";
  const Outcome run = RunMoonlit({"generate", "-p", "春江", "-n", "4", "--seed", "1"}, full);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("can't be written to standard output"));
}

// GPT-2 has rows for its positions and no way to read beyond them: known before anything is read.
TEST(Generate, AContextBeyondLearnedPositionsIsRefusedAtOnce) {
  for (const char* name : {"gpt2", "starcoder"}) {
    const std::string model = kGolden + name + "/model.gguf";
    const Outcome run = RunMoonlit({"generate", "-m", model, "-p", "the", "-n", "1", "-c", "100000"});
    EXPECT_EQ(run.exit_code, 2) << name;
    EXPECT_THAT(run.err, HasSubstr("100000 tokens"));
    EXPECT_THAT(run.err, HasSubstr("96 positions"));
    EXPECT_EQ(RunMoonlit({"generate", "-m", model, "-p", "the", "-n", "1", "-c", "96"}).exit_code, 0) << name;
  }
}

TEST(Generate, EmptyNamesAreNotTakenForNone) {
  for (const char* flag : {"--quantize", "--pre", "--prompt-cache"}) {
    const Outcome run = RunMoonlit({"generate", "-p", "春", "-n", "1", flag, ""});
    EXPECT_EQ(run.exit_code, 2) << flag;
    EXPECT_THAT(run.err, HasSubstr(flag));
  }
}

}  // namespace
}  // namespace moonlit::test
