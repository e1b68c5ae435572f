// SPDX-License-Identifier: Apache-2.0
// How weights are loaded and multiplied, as the command's flags and environment say: --packed-cache, MOONLIT_FLOAT_PROVIDER.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/xnnpack/float_product.h"
#include "tests/e2e/process.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const char kFloatModel[] = MOONLIT_SOURCE_DIR "/tests/data/golden/llama/model.gguf";

// ---- --packed-cache

class PackedCacheFlag : public testing::Test {
 protected:
  PackedCacheFlag() { std::filesystem::copy_file(kFloatModel, model_); }

  Outcome Logits(const std::string& cache) const {
    std::vector<std::string> words = {"logits", "-m", model_, "--ids", "5,6,7"};
    if (!cache.empty()) words.insert(words.end(), {"--packed-cache", cache});
    return RunMoonlit(words);
  }
  // What a run with the test's own folder gives must be what one without gives; returns what it said beside that.
  std::string Said() const {
    const Outcome run = Logits(cache_.path());
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out, plain_.out);
    return run.err;
  }
  std::string OnlyFile() const {
    EXPECT_EQ(cache_.FileCount(), 1u);
    return std::filesystem::directory_iterator(cache_.path())->path().string();
  }

  const TempFolder models_, cache_;
  const std::string model_ = models_.path() + "/model.gguf";
  Outcome plain_;

  void SetUp() override {
    plain_ = Logits("");
    ASSERT_EQ(plain_.exit_code, 0) << plain_.err;
  }
};

TEST_F(PackedCacheFlag, ASecondRunReadsWhatTheFirstWrote) {
  EXPECT_EQ(Said(), plain_.err);
  const std::string path = OnlyFile();
  // A time of long ago shows that the file is not written anew.
  const auto long_ago = std::filesystem::last_write_time(path) - std::chrono::hours(1000);
  std::filesystem::last_write_time(path, long_ago);
  EXPECT_EQ(Said(), plain_.err);
  EXPECT_EQ(OnlyFile(), path);
  EXPECT_EQ(std::filesystem::last_write_time(path), long_ago);
}

TEST_F(PackedCacheFlag, AChangedModelIsPackedAnew) {
  Said();
  // The last byte is one of a weight's; size and time stay.
  const auto time = std::filesystem::last_write_time(model_);
  std::string bytes = ReadWholeFile(model_);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  {
    std::fstream file(model_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end);
    file.put(bytes.back());
  }
  std::filesystem::last_write_time(model_, time);
  const Outcome before = plain_;
  plain_ = Logits("");
  EXPECT_NE(plain_.out, before.out) << "the weight matters";
  EXPECT_EQ(Said(), plain_.err);
  EXPECT_EQ(cache_.FileCount(), 2u) << "the old file belongs to the old weights";
}

TEST_F(PackedCacheFlag, ADamagedFileIsNamedAndReplaced) {
  Said();
  const std::string path = OnlyFile(), whole = ReadWholeFile(path);
  std::string damaged = whole;
  damaged[whole.size() / 2] = static_cast<char>(damaged[whole.size() / 2] ^ 4);
  for (const std::string& bytes : {damaged, whole.substr(0, whole.size() / 2), std::string()}) {
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_THAT(Said(), HasSubstr(path));
    EXPECT_EQ(OnlyFile(), path) << "no temporary file is left";
    EXPECT_EQ(ReadWholeFile(path), whole);
  }
}

TEST_F(PackedCacheFlag, AFolderThatTakesNoFilesCostsAWarning) {
  const std::string folder = "/proc/self";  // not even root may write there
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "this system has no " << folder;
  const Outcome run = Logits(folder);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, plain_.out);
  EXPECT_THAT(run.err, HasSubstr(folder));
}

TEST_F(PackedCacheFlag, AFolderThatIsNotThereIsAWrongFlag) {
  const Outcome run = Logits(cache_.path() + "/none");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("--packed-cache"));
}

// ---- MOONLIT_FLOAT_PROVIDER

Outcome RunWithProvider(const std::string& name, const std::vector<std::string>& words) {
  RunOptions options;
  options.environment = {"MOONLIT_FLOAT_PROVIDER=" + name};
  return RunMoonlit(words, options);
}

const std::vector<std::string> kLogits = {"logits", "-m", kFloatModel, "--ids", "5,6,7"};
const std::vector<std::string> kBench = {"bench", "--kernels", "--formats", "F32",           "--shapes",
                                         "64x64", "--rows",    "1",         "--min-seconds", "0"};

TEST(FloatProviderVariable, OwnKernelsCanBeForced) {
  const Outcome logits = RunWithProvider("own", kLogits);
  EXPECT_EQ(logits.exit_code, 0) << logits.err;
  EXPECT_THAT(RunWithProvider("own", {"doctor"}).out,
              HasSubstr("own kernels for all weights (MOONLIT_FLOAT_PROVIDER)"));
  const Outcome bench = RunWithProvider("own", kBench);
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("| own | f32_f32_"));
  EXPECT_THAT(bench.out, Not(HasSubstr("xnnpack")));
  EXPECT_EQ(RunWithProvider("", kLogits).exit_code, 0) << "an empty name is none";
}

TEST(FloatProviderVariable, XnnpackCanBeForcedWhereItIs) {
  const Outcome logits = RunWithProvider("xnnpack", kLogits);
  if (!FloatProduct::Available().ok()) {
    EXPECT_NE(logits.exit_code, 0);
    EXPECT_THAT(logits.err, HasSubstr("XNNPACK"));
    return;
  }
  EXPECT_EQ(logits.exit_code, 0) << logits.err;
  EXPECT_FALSE(logits.out.empty());
  EXPECT_THAT(RunWithProvider("xnnpack", {"doctor"}).out,
              HasSubstr("xnnpack for all weights (MOONLIT_FLOAT_PROVIDER)"));
  const Outcome bench = RunWithProvider("xnnpack", kBench);
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("| xnnpack | xnnpack_f32_"));
}

TEST(FloatProviderVariable, AnyOtherNameIsRefused) {
  for (const std::vector<std::string>& words : {kLogits, kBench, std::vector<std::string>{"generate", "-p", "春"}}) {
    const Outcome run = RunWithProvider("nonsense", words);
    EXPECT_EQ(run.exit_code, 2) << words[0];
    EXPECT_EQ(run.out, "") << words[0];
    EXPECT_THAT(run.err, HasSubstr("there is no float provider \"nonsense\"; expected own or xnnpack"));
  }
}

}  // namespace
}  // namespace moonlit::test
