// SPDX-License-Identifier: Apache-2.0
// What the headers say about threads, for the thread sanitizer to look at: results are the same as from one thread, and nothing races.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/api/moonlit.hpp"
#include "tests/models/random_adapter.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

constexpr size_t kThreads = 4;
const std::string kModel = MOONLIT_SOURCE_DIR "/tests/data/golden/llama/model.gguf";

moonlit_model_options SmallOptions(uint32_t sessions) {
  moonlit_model_options options = api::Model::Options();
  options.threads = 2;
  options.n_ctx = 128;
  options.max_sessions = sessions;
  options.chunk_tokens = 32;
  return options;
}

api::Model Load(uint32_t sessions) {
  auto model = api::Model::Load(kModel, SmallOptions(sessions));
  EXPECT_TRUE(model) << model.error().message;
  return std::move(*model);
}

std::vector<int32_t> Ids(size_t count, size_t seed) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>((seed * 31 + i * 17 + 3) % 300);
  return ids;
}

void OnThreads(const std::function<void(size_t thread)>& body) {
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) threads.emplace_back([&body, t] { body(t); });
  for (std::thread& thread : threads) thread.join();
}

// A text of the thread's own: prompt, generation, a fork that goes on, and a file.
std::vector<int32_t> Talk(api::Model& model, size_t seed, const std::string& path) {
  auto session = model.NewSession();
  EXPECT_TRUE(session) << session.error().message;
  moonlit_generate_options options;
  moonlit_generate_options_init(&options, sizeof options);
  options.max_tokens = 6;
  options.ignore_end = 1;
  options.seed = seed;
  EXPECT_TRUE(session->Generate(Ids(70, seed), options, {}));
  auto fork = session->Fork();
  EXPECT_TRUE(fork) << fork.error().message;
  EXPECT_EQ(session->Save(path).code, MOONLIT_OK);
  EXPECT_EQ(fork->Truncate(66).code, MOONLIT_OK);
  EXPECT_EQ(fork->Eval(Ids(5, seed + 1), MOONLIT_OUTPUT_NONE, {}).code, MOONLIT_OK);
  EXPECT_EQ(fork->Load(path).code, MOONLIT_OK);
  std::string bytes;
  EXPECT_EQ(session
                ->Write([&](std::span<const uint8_t> more) {
                  bytes.append(more.begin(), more.end());
                  return true;
                })
                .code,
            MOONLIT_OK);
  EXPECT_EQ(bytes, ReadWholeFile(path));
  std::vector<int32_t> tokens = fork->Tokens();
  EXPECT_EQ(tokens.size(), 75u);  // the last one generated was not read
  return tokens;
}

TEST(Threads, ModelsAreLoadedAtOnce) {
  std::vector<std::vector<int32_t>> found(kThreads);
  const TempFolder folder;
  OnThreads([&](size_t t) {
    api::Model model = Load(3);  // a session that is restored stands beside what it replaces
    found[t] = Talk(model, 1, folder.path() + "/" + std::to_string(t));
  });
  for (const auto& tokens : found) EXPECT_EQ(tokens, found[0]);
}

TEST(Threads, SessionsOfOneModelGoTheirOwnWays) {
  const TempFolder folder;
  api::Model model = Load(2 * kThreads);
  std::vector<std::vector<int32_t>> expected, found(kThreads);
  for (size_t t = 0; t < kThreads; ++t) expected.push_back(Talk(model, t, folder.path() + "/alone"));
  OnThreads([&](size_t t) { found[t] = Talk(model, t, folder.path() + "/" + std::to_string(t)); });
  EXPECT_EQ(found, expected);
}

// While a call uses a session others get MOONLIT_BUSY and change nothing, from callbacks too.
TEST(Threads, ASessionHasOneUser) {
  api::Model model = Load(1);
  auto session = model.NewSession();
  ASSERT_TRUE(session);
  moonlit_session* handle = session->handle();
  const std::vector<int32_t> more = Ids(5, 2);
  const auto expect_busy = [&] {
    moonlit_error error = {};
    EXPECT_EQ(moonlit_eval(handle, more.data(), more.size(), MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error),
              MOONLIT_BUSY);
    EXPECT_EQ(moonlit_session_truncate(handle, 0, &error), MOONLIT_BUSY);
    EXPECT_EQ(moonlit_session_drop(handle, 0, 0, &error), MOONLIT_BUSY);
    EXPECT_EQ(moonlit_session_save(handle, "file", &error), MOONLIT_BUSY);
    EXPECT_EQ(moonlit_session_load(handle, "file", 0, &error), MOONLIT_BUSY);
    EXPECT_EQ(session->Write([](auto) { return true; }).code, MOONLIT_BUSY);
    EXPECT_EQ(session->Read([](auto) { return true; }).code, MOONLIT_BUSY);
    EXPECT_EQ(session->SavedBytes().error().code, MOONLIT_BUSY);
    EXPECT_EQ(moonlit_session_set_adapters(handle, nullptr, nullptr, 0, &error), MOONLIT_BUSY);
    moonlit_session* fork = nullptr;
    EXPECT_EQ(moonlit_session_fork(handle, &fork, &error), MOONLIT_BUSY);
  };
  moonlit_generate_options options;
  moonlit_generate_options_init(&options, sizeof options);
  options.max_tokens = 3;
  options.ignore_end = 1;
  options.temperature = 0;
  size_t done = 0;
  const auto prefilled = [&](size_t, size_t) {
    if (done++ != 0) return;
    expect_busy();
    std::thread(expect_busy).join();
  };
  ASSERT_TRUE(session->Generate(Ids(70, 1), options, {}, prefilled));
  EXPECT_GT(done, 1u);
  EXPECT_EQ(session->length(), 72u);
}

TEST(Threads, BusyCallsRaceForASession) {
  api::Model model = Load(1);
  auto session = model.NewSession();
  ASSERT_TRUE(session);
  const std::vector<int32_t> ids = Ids(3, 1);
  std::atomic<size_t> evaluated{0};
  OnThreads([&](size_t) {
    for (int i = 0; i < 10; ++i) {
      const api::Error error = session->Eval(ids, MOONLIT_OUTPUT_NONE, {});
      if (error.code == MOONLIT_OK) {
        evaluated += ids.size();
      } else {
        EXPECT_EQ(error.code, MOONLIT_BUSY) << error.message;
      }
    }
  });
  EXPECT_GE(evaluated, ids.size());
  EXPECT_EQ(session->length(), evaluated);
}

TEST(Threads, AnyoneMayCancel) {
  moonlit_model_options load = SmallOptions(1);
  load.n_ctx = 512;
  auto model = api::Model::Load(kModel, load);
  ASSERT_TRUE(model) << model.error().message;
  auto session = model->NewSession();
  ASSERT_TRUE(session);
  moonlit_generate_options options;
  moonlit_generate_options_init(&options, sizeof options);
  options.ignore_end = 1;
  options.context_shift = 1;  // it would never end
  std::atomic<bool> began{false}, ended{false};
  std::thread other([&] {
    while (!began) std::this_thread::yield();
    while (!ended) session->Cancel();
  });
  auto result = session->Generate(Ids(4, 1), options, {}, [&](size_t, size_t) { began = true; });
  ended = true;
  other.join();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->finish, MOONLIT_FINISH_CANCELLED);
}

TEST(Threads, SessionsMayEndElsewhere) {
  api::Model model = Load(3);
  for (int round = 0; round < 4; ++round) {
    auto first = model.NewSession(), second = model.NewSession();
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first->Eval(Ids(70, 1), MOONLIT_OUTPUT_NONE, {}).code, MOONLIT_OK);
    std::thread other([session = std::move(*first)]() mutable { const api::Session ended = std::move(session); });
    EXPECT_EQ(second->Eval(Ids(70, 2), MOONLIT_OUTPUT_NONE, {}).code, MOONLIT_OK);
    other.join();
  }
}

TEST(Threads, AskAModelWhileItWorks) {
  const TempFolder folder;
  const std::string adapter = folder.path() + "/adapter.gguf", text = "The quick brown fox";
  RandomAdapter(*GgufSource::Open(kModel).value(), 4, 8, 1).Write(adapter, "llama");
  api::Model model = Load(kThreads);
  const auto expected = model.Tokenize(text, MOONLIT_ADD_SPECIAL);
  OnThreads([&](size_t t) {
    if (t == 0) {
      auto session = model.NewSession();
      ASSERT_TRUE(session);
      EXPECT_EQ(session->Eval(Ids(100, 1), MOONLIT_OUTPUT_ALL, {}).code, MOONLIT_OK);
      return;
    }
    for (int i = 0; i < 5; ++i) {
      auto ids = model.Tokenize(text, MOONLIT_ADD_SPECIAL);
      ASSERT_TRUE(ids);
      EXPECT_TRUE(model.Detokenize(*ids));
      EXPECT_EQ(model.info().n_ctx, 128u);
      EXPECT_GT(model.memory().total, 0u);
      EXPECT_EQ(model.chat_template(), nullptr);
      EXPECT_TRUE(model.NewGrammar("root ::= \"a\"*"));
      auto loaded = model.LoadAdapter(adapter);
      ASSERT_TRUE(loaded) << loaded.error().message;
      EXPECT_GT(loaded->info().tensors, 0u);
      moonlit_embed_options options;
      moonlit_embed_options_init(&options, sizeof options);
      options.pooling = MOONLIT_POOLING_MEAN;
      EXPECT_TRUE(model.Embed(*ids, options));
    }
  });
}

TEST(Threads, FilesAreWrittenAtOnce) {
  const TempFolder folder;
  OnThreads([&](size_t t) {
    moonlit_write_options options;
    moonlit_write_options_init(&options, sizeof options);
    options.type = "Q8_0";
    options.threads = 2;
    const std::string out = folder.path() + "/" + std::to_string(t % 2) + ".gguf";  // two of them the same one
    moonlit_error error = {};
    EXPECT_EQ(moonlit_quantize(kModel.c_str(), out.c_str(), &options, nullptr, &error), MOONLIT_OK) << error.message;
    auto plan = api::Model::PlanMemory(out, SmallOptions(1));
    EXPECT_TRUE(plan) << plan.error().message;
  });
  EXPECT_EQ(ReadWholeFile(folder.path() + "/0.gguf"), ReadWholeFile(folder.path() + "/1.gguf"));
}

// Workers go on writing while the loading thread's callback throws: what it throws ends the load when they have ended, with an error.
TEST(Threads, ACallbackThatThrowsEndsALoad) {
  moonlit_model_options options = SmallOptions(1);
  options.threads = kThreads;
  options.progress = [](void*, uint64_t, uint64_t) -> int { throw std::runtime_error("thrown by a callback"); };
  auto model = api::Model::Load(kModel, options);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, MOONLIT_INTERNAL);
  EXPECT_THAT(model.error().message, testing::HasSubstr("thrown by a callback"));

  options.progress = [](void*, uint64_t, uint64_t) -> int { throw 7; };
  model = api::Model::Load(kModel, options);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, MOONLIT_INTERNAL);
}

}  // namespace
}  // namespace moonlit::test
