// SPDX-License-Identifier: Apache-2.0
// A model that runs on an application's threads: the same bits, and no thread of ours.
#include <dirent.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "runtime/api/moonlit.hpp"
#include "tests/support/temp_folder.h"
#include "tests/threads/parallel_loops.h"

namespace moonlit::test {
namespace {

size_t ThreadsNow() {
  size_t count = 0;
  DIR* folder = opendir("/proc/self/task");
  if (folder == nullptr) return 0;
  while (const dirent* entry = readdir(folder)) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

moonlit_model_options SmallOptions() {
  moonlit_model_options options = api::Model::Options();
  options.threads = 3;
  options.n_ctx = 128;
  options.chunk_tokens = 32;
  return options;
}

// Logits of every token of a prompt, then of tokens one by one.
std::vector<float> Logits(api::Model& model) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 40; ++i) ids.push_back(3 + i * 7);
  std::vector<float> all;
  const auto keep = [&](size_t, std::span<const float> logits) { all.insert(all.end(), logits.begin(), logits.end()); };
  auto session = model.NewSession();
  EXPECT_TRUE(session) << session.error().message;
  EXPECT_EQ(session->Eval(std::span(ids).first(35), MOONLIT_OUTPUT_ALL, keep).code, MOONLIT_OK);
  for (size_t i = 35; i < ids.size(); ++i) {
    EXPECT_EQ(session->Eval(std::span(ids).subspan(i, 1), MOONLIT_OUTPUT_LAST, keep).code, MOONLIT_OK);
  }
  return all;
}

class ParallelForTest : public testing::TestWithParam<LoopKind> {};

TEST_P(ParallelForTest, GivesTheSameBits) {
  moonlit_model_options options = SmallOptions();
  std::vector<float> expected;
  {
    auto own = api::Model::Load("poet", options);
    ASSERT_TRUE(own) << own.error().message;
    expected = Logits(*own);
  }
  options.parallel_for = GetParam().run;
  auto model = api::Model::Load("poet", options);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->info().threads, 3u);
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(Logits(*model), expected);
}

// The file that a call with these options writes. The poem model's embedding is several tasks.
std::string Quantized(const TempFolder& folder, moonlit_write_options& options) {
  const std::string out = folder.path() + "/out.gguf";
  options.type = "Q8_0";
  options.allow_requantize = 1;
  options.threads = 3;
  moonlit_error error = {};
  EXPECT_EQ(moonlit_quantize(MOONLIT_SOURCE_DIR "/models/poet/poet-Q4_0.gguf", out.c_str(), &options, nullptr, &error),
            MOONLIT_OK)
      << error.message;
  return ReadWholeFile(out);
}

TEST_P(ParallelForTest, WritesTheSameFile) {
  const TempFolder folder;
  moonlit_write_options options;
  moonlit_write_options_init(&options, sizeof options);
  static const std::string by_own_threads = Quantized(folder, options);
  ASSERT_FALSE(by_own_threads.empty());
  options.parallel_for = GetParam().run;
  EXPECT_TRUE(Quantized(folder, options) == by_own_threads);
}

INSTANTIATE_TEST_SUITE_P(Loops, ParallelForTest, testing::ValuesIn(kLoops),
                         [](const auto& info) { return std::string(info.param.name); });

struct Seen {
  size_t calls = 0, most_threads = 0;
};

void LookAndRun(void* user, size_t count, LoopTask task, void* data) {
  Seen& seen = *static_cast<Seen*>(user);
  ++seen.calls;
  seen.most_threads = std::max(seen.most_threads, ThreadsNow());
  RunSerial(nullptr, count, task, data);
}

TEST(ParallelFor, NoThreadIsCreated) {
  const size_t before = ThreadsNow();
  if (before == 0) GTEST_SKIP() << "this system does not list a process's threads";
  Seen seen;
  moonlit_model_options options = SmallOptions();
  options.parallel_user = &seen;
  options.parallel_for = &LookAndRun;
  auto model = api::Model::Load("poet", options);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_GT(seen.calls, 0u) << "loading runs on them too";
  const size_t loading = seen.calls;
  Logits(*model);
  EXPECT_GT(seen.calls, loading);
  EXPECT_EQ(seen.most_threads, before);
}

TEST(ParallelFor, NoThreadIsCreatedToWriteAFile) {
  const size_t before = ThreadsNow();
  if (before == 0) GTEST_SKIP() << "this system does not list a process's threads";
  Seen seen;
  moonlit_write_options options;
  moonlit_write_options_init(&options, sizeof options);
  options.parallel_for = &LookAndRun;
  options.parallel_user = &seen;
  Quantized(TempFolder(), options);
  EXPECT_GT(seen.calls, 0u);
  EXPECT_EQ(seen.most_threads, before);
}

// Steps of both models lie in one queue.
TEST(ParallelFor, ModelsMayShareOneLoopFromSeveralThreads) {
  moonlit_model_options options = SmallOptions();
  options.parallel_for = &RunOnAQueue;
  std::vector<std::vector<float>> found(2);
  std::vector<std::thread> threads;
  for (std::vector<float>& one : found) {
    threads.emplace_back([&one, &options] {
      auto model = api::Model::Load("poet", options);
      ASSERT_TRUE(model) << model.error().message;
      one = Logits(*model);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_FALSE(found[0].empty());
  EXPECT_EQ(found[0], found[1]);
}

}  // namespace
}  // namespace moonlit::test
