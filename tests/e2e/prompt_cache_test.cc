// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/e2e/process.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;

TEST(PromptCache, SavesReadingAndChangesNothing) {
  const TempFolder folder;
  const std::string path = folder.path() + "/prompt.session";
  const auto run = [&](const std::string& prompt, std::vector<std::string> more = {}) {
    std::vector<std::string> flags = {"generate", "-p", prompt, "--seed", "7", "-n", "12", "--repeat-penalty", "1.3"};
    flags.insert(flags.end(), more.begin(), more.end());
    return RunMoonlit(flags);
  };
  const std::vector<std::string> cached = {"--prompt-cache", path};
  const std::string first = "春江潮水连海平", second = "春江潮水连天";
  for (const std::string& prompt : {first, first, second, first}) {
    const Outcome plain = run(prompt), with = run(prompt, cached);
    EXPECT_EQ(with.exit_code, 0) << with.err;
    EXPECT_EQ(with.out, plain.out) << prompt;
  }
  EXPECT_THAT(run(first, cached).err, HasSubstr("prefill 1 tokens (7 more from the prompt cache)"));
  const std::string kept = ReadWholeFile(path);
  EXPECT_EQ(run(second, {"--prompt-cache", path, "--prompt-cache-ro"}).exit_code, 0);
  EXPECT_EQ(ReadWholeFile(path), kept);
  EXPECT_EQ(run(first, {"--prompt-cache", path, "--prompt-cache-all"}).exit_code, 0);
  EXPECT_NE(ReadWholeFile(path), kept) << "the verse is kept too";

  std::ofstream(path, std::ios::binary) << kept.substr(0, kept.size() / 2);
  const Outcome damaged = run(first, cached);
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_EQ(damaged.out, "");
  EXPECT_THAT(damaged.err, HasSubstr("cut short"));
  EXPECT_EQ(run(first, {"--prompt-cache-all"}).exit_code, 2) << "there is no file";
  EXPECT_EQ(folder.FileCount(), 1u) << "no temporary file is left";
}

}  // namespace
}  // namespace moonlit::test
