// SPDX-License-Identifier: Apache-2.0
// An application's allocator for the big memory of a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/api/moonlit.hpp"
#include "tests/api/counting_allocator.h"
#include "tests/models/random_adapter.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;

std::string Golden(const std::string& name) { return MOONLIT_SOURCE_DIR "/tests/data/golden/" + name + "/model.gguf"; }

moonlit_model_options SmallOptions() {
  moonlit_model_options options = api::Model::Options();
  options.threads = 2;
  options.n_ctx = 256;
  options.max_sessions = 2;
  options.chunk_tokens = 64;
  return options;
}

// Logits of the last of 100 tokens, some of them of a fork.
std::vector<float> Logits(api::Model& model) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 100; ++i) ids.push_back((3 + i * 17) % 300);
  auto session = model.NewSession();
  EXPECT_TRUE(session) << session.error().message;
  const std::span<const int32_t> text = ids;
  EXPECT_EQ(session->Eval(text.first(70), MOONLIT_OUTPUT_NONE, {}).code, MOONLIT_OK);
  auto fork = session->Fork();
  EXPECT_TRUE(fork) << fork.error().message;
  std::vector<float> last;
  const auto keep = [&](size_t, std::span<const float> logits) { last.assign(logits.begin(), logits.end()); };
  EXPECT_EQ(fork->Eval(text.subspan(70), MOONLIT_OUTPUT_LAST, keep).code, MOONLIT_OK);
  return last;
}

class AllocatorTest : public testing::TestWithParam<std::string> {};

TEST_P(AllocatorTest, GivesTheSameBitsAndGetsEverythingBack) {
  const std::string path = GetParam() == "poet" ? GetParam() : Golden(GetParam());
  CountingAllocator allocator;
  moonlit_model_options options = SmallOptions();
  std::vector<float> expected, found;
  {
    auto model = api::Model::Load(path, options);
    ASSERT_TRUE(model) << model.error().message;
    expected = Logits(*model);
  }
  {
    allocator.Install(options);
    auto model = api::Model::Load(path, options);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_GE(allocator.live_bytes(), model->info().packed_bytes);
    found = Logits(*model);
  }
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(found, expected);
  EXPECT_EQ(allocator.live_blocks(), 0u);
  EXPECT_EQ(allocator.live_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Models, AllocatorTest, testing::Values("poet", "llama", "gemma3", "mixtral"));

TEST(Allocator, IsAskedForHugePagesOnlyWhereTheyServe) {
  constexpr size_t kHuge = size_t{2} << 20;
  CountingAllocator allocator;
  moonlit_model_options options = SmallOptions();
  allocator.Install(options);
  ASSERT_TRUE(api::Model::Load("poet", options));
  size_t huge = 0;
  for (const CountingAllocator::Request& request : allocator.requests()) {
    EXPECT_EQ(request.alignment, request.bytes < kHuge ? 64 : kHuge) << request.bytes;
    huge += request.bytes < kHuge ? 0 : 1;
  }
  EXPECT_GT(huge, 0u);
  EXPECT_LT(huge, allocator.requests().size());
}

// Loading fails at each request in turn, with what was wanted, until there are no more requests.
TEST(Allocator, EveryRequestMayFail) {
  size_t failed = 0;
  for (size_t n = 1;; ++n) {
    CountingAllocator allocator(n);
    moonlit_model_options options = SmallOptions();
    allocator.Install(options);
    moonlit_error error = {};
    moonlit_model* model = nullptr;
    const moonlit_code code = moonlit_model_load(Golden("llama").c_str(), &options, &model, &error);
    if (code == MOONLIT_OK) {
      moonlit_model_free(model);
      EXPECT_EQ(allocator.live_blocks(), 0u);
      break;
    }
    ++failed;
    EXPECT_EQ(code, MOONLIT_OUT_OF_MEMORY) << error.message;
    EXPECT_THAT(error.message, HasSubstr("bytes, which the application's allocator does not give"));
    EXPECT_EQ(model, nullptr);
    EXPECT_EQ(allocator.live_blocks(), 0u) << "after request " << n;
  }
  EXPECT_GE(failed, 4u) << "intermediates, weights, staging, the cache";
}

TEST(Allocator, AdaptersComeFromItAndMayOutliveTheModel) {
  const TempFolder folder;
  const std::string path = folder.path() + "/adapter.gguf";
  RandomAdapter(*GgufSource::Open(Golden("llama")).value(), 4, 8, 1).Write(path, "llama");
  CountingAllocator allocator;
  moonlit_model_options options = SmallOptions();
  allocator.Install(options);
  moonlit_error error = {};
  moonlit_model* model = nullptr;
  moonlit_adapter* adapter = nullptr;
  ASSERT_EQ(moonlit_model_load(Golden("llama").c_str(), &options, &model, &error), MOONLIT_OK) << error.message;
  const uint64_t before = allocator.live_bytes();
  ASSERT_EQ(moonlit_adapter_load(model, path.c_str(), &adapter, &error), MOONLIT_OK) << error.message;
  moonlit_adapter_info info = {};
  info.size = sizeof info;
  moonlit_adapter_get_info(adapter, &info);
  EXPECT_EQ(allocator.live_bytes(), before + info.bytes);
  moonlit_model_free(model);
  EXPECT_EQ(allocator.live_bytes(), info.bytes);
  moonlit_adapter_free(adapter);
  EXPECT_EQ(allocator.live_blocks(), 0u);
}

TEST(Allocator, MisuseIsToldApart) {
  moonlit_error error = {};
  moonlit_model* model = nullptr;
  moonlit_model_options options = SmallOptions();
  options.allocate = [](void*, size_t, size_t) -> void* { return nullptr; };
  EXPECT_EQ(moonlit_model_load("poet", &options, &model, &error), MOONLIT_INVALID_ARGUMENT) << "no release";
  EXPECT_THAT(error.message, HasSubstr("release"));

  alignas(64) static unsigned char memory[1024];
  size_t released = 0;
  options.allocate = [](void*, size_t, size_t) -> void* { return memory + 8; };
  options.release = [](void* user, void* given, size_t) {
    EXPECT_EQ(given, memory + 8);
    ++*static_cast<size_t*>(user);
  };
  options.allocator_user = &released;
  EXPECT_EQ(moonlit_model_load("poet", &options, &model, &error), MOONLIT_INVALID_ARGUMENT) << "misaligned";
  EXPECT_THAT(error.message, HasSubstr("multiple of 64"));
  EXPECT_EQ(released, 1u);
}

}  // namespace
}  // namespace moonlit::test
