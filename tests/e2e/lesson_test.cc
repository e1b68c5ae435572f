// SPDX-License-Identifier: Apache-2.0
// `moonlit lesson` from outside: every claim holds on this machine, in both languages, and what it prints is what it prints again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "tests/e2e/process.h"
#include "tests/support/slowed.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Section(const char* flag, int number, const char* language) {
  const Outcome run = RunMoonlit({"lesson", flag, std::to_string(number), "--lang", language});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("[ok]"));
  EXPECT_THAT(run.out, Not(HasSubstr("[WRONG]")));
  return run.out;
}

// The tenth section and the third exercise measure up to 4000 tokens: for fast builds.
TEST(Lesson, EverySectionHolds) {
  for (int i = 1; i <= (kSlowed ? 9 : 10); ++i) Section("--section", i, i % 2 == 0 ? "zh" : "en");
  for (int i = 1; i <= (kSlowed ? 2 : 3); ++i) Section("--exercise", i, i % 2 == 0 ? "en" : "zh");
}

TEST(Lesson, FiguresAreTheSeeds) {
  const std::string average = Section("--section", 1, "en");
  EXPECT_THAT(average, HasSubstr(" 0.33  0.33  0.33  0.00  0.00"));
  for (const char* language : {"en", "zh"}) {
    const std::string scores = Section("--section", 2, language);
    EXPECT_THAT(scores, HasSubstr(" 0.12  0.11  0.26  0.29  0.23"));
    EXPECT_THAT(scores, HasSubstr(" 0.01  0.00  0.30  0.50  0.18"));
  }
  EXPECT_THAT(Section("--section", 5, "zh"), HasSubstr("(1, 1, 5, 5)"));
}

TEST(Lesson, SaysTheSameAgain) { EXPECT_EQ(Section("--section", 3, "zh"), Section("--section", 3, "zh")); }

TEST(Lesson, TheWholeLessonNamesItsExercises) {
  if (kSlowed) GTEST_SKIP() << "up to 4000 tokens";
  const Outcome run = RunMoonlit({"lesson"});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("== 10. "));
  EXPECT_THAT(run.out, HasSubstr("moonlit lesson --exercise 3"));
}

// What differs from run to run and from variant to variant, errors and times, taken out; spaces are one.
std::string WithoutMeasurements(const std::string& line) {
  static const std::regex kError("[0-9.]+e[-+][0-9]+"), kTimes("^ *(1000|2000|4000) +([0-9.]+) .*"), kSpaces(" +");
  return std::regex_replace(std::regex_replace(std::regex_replace(line, kError, "E"), kTimes, "$1 $2"), kSpaces, " ");
}

// Lines of `text` that begin with four spaces, without these.
std::set<std::string> ShownLines(const std::string& text) {
  std::set<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("    ", 0) == 0) lines.insert(WithoutMeasurements(line));
  }
  return lines;
}

TEST(Lesson, ThePagesShowItsOutput) {
  if (kSlowed) GTEST_SKIP() << "up to 4000 tokens";
  for (const auto& [language, file] :
       {std::pair{"en", "attention-lesson.md"}, std::pair{"zh", "attention-lesson.zh-CN.md"}}) {
    // The page has everything two columns further left, and what is before it.
    std::string printed;
    for (int i = 1; i <= 10; ++i) printed += Section("--section", i, language);
    for (int i = 1; i <= 3; ++i) printed += Section("--exercise", i, language);
    const std::set<std::string> output = ShownLines(std::regex_replace("\n" + printed, std::regex("\n"), "\n    "));
    size_t compared = 0;
    for (const std::string& line : ShownLines(ReadWholeFile(std::string(MOONLIT_SOURCE_DIR) + "/docs/" + file))) {
      if (line.find("moonlit lesson") != std::string::npos) continue;
      EXPECT_TRUE(output.contains(line)) << file << ": " << line;
      ++compared;
    }
    EXPECT_GT(compared, 100u);
  }
}

TEST(Lesson, WrongFlagsAreUsage) {
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"--lang", "fr"},
                                             {"--section", "0"},
                                             {"--section", "11"},
                                             {"--exercise", "4"},
                                             {"--section", "1", "--exercise", "1"}}) {
    std::vector<std::string> all = {"lesson"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome run = RunMoonlit(all);
    EXPECT_EQ(run.exit_code, 2) << flags[0] << " " << flags[1];
    EXPECT_EQ(run.out, "");
  }
}

}  // namespace
}  // namespace moonlit::test
