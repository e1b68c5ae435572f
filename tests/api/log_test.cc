// SPDX-License-Identifier: Apache-2.0
// Logs are a model's or a call's own, whatever other threads do meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "runtime/api/moonlit.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Lines = std::vector<std::string>;

void Keep(void* user, moonlit_log_level level, const char* text) {
  static_cast<Lines*>(user)->push_back(std::to_string(level) + " " + text);
}

// A file that is read with one warning.
std::string WriteOddModel(const TempFolder& folder, const std::string& name) {
  return folder.Write(name,
                      ReadWholeFile(MOONLIT_SOURCE_DIR "/tests/data/golden/llama/model.gguf") + std::string(5000, 'x'));
}

void Load(const std::string& path, Lines* lines) {
  moonlit_model_options options;
  moonlit_model_options_init(&options, sizeof options);
  options.threads = 1;
  options.log = lines == nullptr ? nullptr : &Keep;
  options.log_user = lines;
  moonlit_model* model = nullptr;
  moonlit_error error = {};
  ASSERT_EQ(moonlit_model_load(path.c_str(), &options, &model, &error), MOONLIT_OK) << error.message;
  moonlit_model_free(model);
}

TEST(Log, IsTheModelsOwn) {
  const TempFolder folder;
  Lines first, second;
  Load(WriteOddModel(folder, "first.gguf"), &first);
  Load(WriteOddModel(folder, "unheard.gguf"), nullptr);
  Load(WriteOddModel(folder, "second.gguf"), &second);
  EXPECT_THAT(first, ElementsAre(AllOf(StartsWith("2 "), HasSubstr("first.gguf"))));
  EXPECT_THAT(second, ElementsAre(AllOf(StartsWith("2 "), HasSubstr("second.gguf"))));
}

TEST(Log, OfAContextThatIsLongerThanTheModelWasTrainedFor) {
  const auto load = [](uint32_t n_ctx) {
    Lines lines;
    moonlit_model_options options;
    moonlit_model_options_init(&options, sizeof options);
    options.threads = 1;
    options.n_ctx = n_ctx;
    options.log = &Keep;
    options.log_user = &lines;
    moonlit_model* model = nullptr;
    moonlit_error error = {};
    EXPECT_EQ(moonlit_model_load("poet", &options, &model, &error), MOONLIT_OK) << error.message;
    moonlit_model_free(model);
    return lines;
  };
  EXPECT_THAT(load(257),
              ElementsAre("2 the context of 257 tokens is longer than the 256 that the model was trained for"));
  EXPECT_THAT(load(256), ElementsAre());
  EXPECT_THAT(load(0), ElementsAre()) << "the default is never longer";
}

TEST(Log, ModelsThatAreLoadedAtOnceDoNotMix) {
  constexpr size_t kThreads = 4, kLoads = 3;
  const TempFolder folder;
  std::vector<Lines> lines(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    const std::string path = WriteOddModel(folder, "model" + std::to_string(t) + ".gguf");
    threads.emplace_back([path, &lines, t] {
      for (size_t i = 0; i < kLoads; ++i) Load(path, &lines[t]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < kThreads; ++t) {
    EXPECT_EQ(lines[t].size(), kLoads);
    EXPECT_THAT(lines[t], Each(HasSubstr("model" + std::to_string(t) + ".gguf")));
  }
}

TEST(Log, OfACallThatWritesAFile) {
  const TempFolder folder;
  const std::string in = WriteOddModel(folder, "in.gguf"), out = folder.path() + "/out.gguf";
  Lines lines;
  moonlit_write_options options;
  moonlit_write_options_init(&options, sizeof options);
  options.type = "Q8_0";
  options.threads = 1;
  options.log = &Keep;
  options.log_user = &lines;
  moonlit_error error = {};
  ASSERT_EQ(moonlit_quantize(in.c_str(), out.c_str(), &options, nullptr, &error), MOONLIT_OK) << error.message;
  EXPECT_THAT(lines, ElementsAre(AllOf(StartsWith("2 "), HasSubstr("in.gguf"))));
}

// What a callback does elsewhere does not take the call's own log away.
TEST(Log, ComesBackAfterACallInACallback) {
  const TempFolder folder;
  const std::string inner = WriteOddModel(folder, "inner.gguf"), outer = WriteOddModel(folder, "outer.gguf");
  Lines lines;
  moonlit_model_options options;
  moonlit_model_options_init(&options, sizeof options);
  options.threads = 1;
  options.packed_cache = "/no/such/folder";  // told after the weights were packed, and so after the callback
  options.log = &Keep;
  options.log_user = &lines;
  options.progress_user = const_cast<char*>(inner.c_str());
  options.progress = [](void* user, uint64_t, uint64_t) {
    Load(static_cast<const char*>(user), nullptr);
    return 0;
  };
  moonlit_model* model = nullptr;
  moonlit_error error = {};
  ASSERT_EQ(moonlit_model_load(outer.c_str(), &options, &model, &error), MOONLIT_OK) << error.message;
  moonlit_model_free(model);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("outer.gguf"), HasSubstr("not kept")));
}

}  // namespace
}  // namespace moonlit
