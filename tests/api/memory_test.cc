// SPDX-License-Identifier: Apache-2.0
// What is planned is what is taken: of a loaded model, and of the allocator that it was given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "runtime/api/moonlit.hpp"
#include "tests/api/counting_allocator.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;

std::string Golden(const std::string& name) { return MOONLIT_SOURCE_DIR "/tests/data/golden/" + name + "/model.gguf"; }

struct Case {
  const char* name;
  const char* model;
  const char* key_type = nullptr;
  const char* value_type = nullptr;
  uint32_t n_ctx = 0, max_sessions = 1, threads = 2, attention_window = 0, attention_pages = 0;
  const char* quantize = nullptr;
  const char* float_provider = "own";
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

moonlit_model_options OptionsOf(const Case& c) {
  moonlit_model_options options = api::Model::Options();
  options.key_type = c.key_type;
  options.value_type = c.value_type;
  options.n_ctx = c.n_ctx;
  options.max_sessions = c.max_sessions;
  options.threads = c.threads;
  options.attention_window = c.attention_window;
  options.attention_pages = c.attention_pages;
  options.quantize = c.quantize;
  options.float_provider = c.float_provider;
  return options;
}

class MemoryTest : public testing::TestWithParam<Case> {};

// 5 % would do; it is the same to the byte, since both come from one layout.
TEST_P(MemoryTest, IsTakenAsPlanned) {
  const std::string path = std::strcmp(GetParam().model, "poet") == 0 ? "poet" : Golden(GetParam().model);
  moonlit_model_options options = OptionsOf(GetParam());
  auto planned = api::Model::PlanMemory(path, options);
  const bool by_xnnpack = options.float_provider != nullptr && std::strcmp(options.float_provider, "xnnpack") == 0;
  if (by_xnnpack && !planned && planned.error().code == MOONLIT_UNSUPPORTED) {
    GTEST_SKIP() << "this build can't: " << planned.error().message;
  }
  ASSERT_TRUE(planned) << planned.error().message;
  CountingAllocator allocator;
  allocator.Install(options);
  auto model = api::Model::Load(path, options);
  ASSERT_TRUE(model) << model.error().message;
  const moonlit_memory taken = model->memory();
  EXPECT_EQ(planned->weights, taken.weights);
  EXPECT_EQ(planned->weights, model->info().packed_bytes);
  EXPECT_EQ(planned->cache, taken.cache);
  EXPECT_EQ(planned->states, taken.states);
  EXPECT_EQ(planned->scratch, taken.scratch);
  EXPECT_EQ(planned->total, taken.total);
  EXPECT_EQ(planned->most, taken.most);
  EXPECT_EQ(planned->session, taken.session);
  EXPECT_EQ(planned->n_ctx, taken.n_ctx);
  EXPECT_EQ(planned->threads, taken.threads);
  EXPECT_EQ(planned->max_sessions, GetParam().max_sessions);
  EXPECT_EQ(planned->total, planned->weights + planned->cache + planned->states + planned->scratch);
  EXPECT_EQ(allocator.live_bytes(), planned->total);
  EXPECT_EQ(allocator.most_bytes(), planned->most);
}

INSTANTIATE_TEST_SUITE_P(
    Models, MemoryTest,
    testing::Values(
        Case{.name = "q4_0", .model = "poet"},
        Case{.name = "q4_0_four_threads", .model = "poet", .n_ctx = 100, .max_sessions = 3, .threads = 4},
        Case{.name = "low_bits", .model = "llama-lowbit", .key_type = "q8_0", .value_type = "q4_0", .n_ctx = 300},
        Case{.name = "kquant", .model = "llama-kquant", .key_type = "f32", .value_type = "f16", .n_ctx = 512},
        Case{.name = "quantized_at_load", .model = "llama", .n_ctx = 256, .quantize = "Q8_0"},
        Case{.name = "f32", .model = "llama", .n_ctx = 256, .float_provider = "own"},
        Case{.name = "f32_by_xnnpack", .model = "llama", .n_ctx = 256, .float_provider = "xnnpack"},
        Case{.name = "windows", .model = "gemma3", .n_ctx = 4096, .max_sessions = 2},
        Case{.name = "sparse_window", .model = "llama", .n_ctx = 4096, .attention_window = 128},
        Case{.name = "sparse_pages", .model = "llama", .n_ctx = 4096, .attention_pages = 3},
        Case{.name = "experts", .model = "mixtral", .n_ctx = 256}, Case{.name = "encoder", .model = "bert"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(MemoryPlan, WindowsTakeLessThanTheWholeText) {
  moonlit_model_options options = api::Model::Options();
  options.threads = 1;
  const auto cache = [&](const char* model, uint32_t n_ctx) {
    options.n_ctx = n_ctx;
    auto plan = api::Model::PlanMemory(Golden(model), options);
    EXPECT_TRUE(plan) << plan.error().message;
    return static_cast<double>(plan->cache);
  };
  EXPECT_NEAR(cache("llama", 16384) / cache("llama", 8192), 2, 0.01);
  EXPECT_LT(cache("gemma3", 16384) / cache("gemma3", 8192), 1.9);
}

TEST(MemoryPlan, FindsTheLargestContextThatFits) {
  moonlit_model_options options = api::Model::Options();
  options.threads = 1;
  const auto most = [&](uint32_t n_ctx) {
    options.n_ctx = n_ctx;
    auto plan = api::Model::PlanMemory(Golden("llama"), options);
    EXPECT_TRUE(plan) << plan.error().message;
    return plan->most;
  };
  options.n_ctx = 0;
  const uint32_t trained = [&] {
    auto plan = api::Model::PlanContext(Golden("llama"), UINT64_MAX, options);
    EXPECT_TRUE(plan) << plan.error().message;
    return *plan;
  }();
  moonlit_model_options load = options;
  load.n_ctx = 64;
  EXPECT_EQ(trained, api::Model::Load(Golden("llama"), load)->info().n_ctx_train);
  const uint64_t least = most(1), all = most(trained);
  for (const uint64_t bytes : {least, least + (all - least) / 3, all - 1}) {
    auto found = api::Model::PlanContext(Golden("llama"), bytes, options);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_GE(*found, 1u);
    ASSERT_LT(*found, trained);
    EXPECT_LE(most(*found), bytes);
    EXPECT_GT(most(*found + 1), bytes);
  }
  EXPECT_EQ(*api::Model::PlanContext(Golden("llama"), least - 1, options), 0u);
}

// Nothing is allocated for a plan, however large.
TEST(MemoryPlan, MayBeOfMoreThanThereIs) {
  moonlit_model_options options = api::Model::Options();
  options.n_ctx = 1 << 20;
  options.max_sessions = 1024;
  CountingAllocator allocator;
  allocator.Install(options);
  auto plan = api::Model::PlanMemory(Golden("llama"), options);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_GT(plan->cache, uint64_t{1} << 36);
  EXPECT_TRUE(allocator.requests().empty());
}

TEST(MemoryPlan, RefusesWhatLoadingRefuses) {
  moonlit_model_options options = api::Model::Options();
  EXPECT_EQ(api::Model::PlanMemory("/no/such.gguf", options).error().code, MOONLIT_NOT_FOUND);
  options.page_tokens = 65;
  EXPECT_THAT(api::Model::PlanMemory("poet", options).error().message, HasSubstr("page_tokens"));
  options = api::Model::Options();
  options.key_type = "f17";
  EXPECT_EQ(api::Model::PlanMemory("poet", options).error().code, MOONLIT_INVALID_ARGUMENT);
  options = api::Model::Options();
  options.vocab_only = 1;
  EXPECT_EQ(api::Model::PlanMemory("poet", options)->total, 0u);
  EXPECT_EQ(api::Model::PlanContext("poet", 1, options).error().code, MOONLIT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace moonlit::test
