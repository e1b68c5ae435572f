// SPDX-License-Identifier: Apache-2.0
// What sessions do with the cache beside growing: shared beginnings, forks, dropped blocks, files. The fake model's logits
// are a hash of all tokens that the pages hold, so a wrong page changes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "runtime/decode/generate.h"
#include "tests/decode/fake_model.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

using testing::HasSubstr;

std::vector<int32_t> Joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(EngineCache, ARepeatedPromptIsReused) {
  FakePlan* plan = nullptr;
  const auto engine = MakeFakeEngine({.max_sessions = 2}, &plan);
  const auto ids = Ids(200);
  {
    const auto first = NewSession(*engine);
    EXPECT_EQ(Feed(*engine, *first, ids), 0u);
  }
  plan->tokens = 0;
  const auto second = NewSession(*engine);
  EXPECT_EQ(Feed(*engine, *second, ids), 192u);
  EXPECT_EQ(plan->tokens, 8u);
  const auto third = NewSession(*engine);  // while the second lives
  EXPECT_EQ(Feed(*engine, *third, std::span(ids).first(192)), 128u) << "the last token is computed for its logits";
  EXPECT_EQ(Feed(*engine, *third, std::span(ids).subspan(192)), 0u);
}

// Generated tokens choose their pages, prompts do not; and once pages are left out what they fill is not what another prefill
// would give.
TEST(EngineCache, WhatChosenPagesGaveIsNotShared) {
  FakePlan* plan = nullptr;
  const auto engine = MakeFakeEngine({.max_sessions = 2, .attention_pages = 2}, &plan);
  EXPECT_EQ(plan->options().sparse.pages, 2u);
  EXPECT_EQ(plan->options().sparse.most_pages, 4u);
  std::vector<bool> chose;
  plan->on_run = [&](std::span<const StepSpan> spans) {
    for (const StepSpan& span : spans) chose.insert(chose.end(), span.tokens.size(), span.choose_pages);
    return Status();
  };
  const auto ids = Ids(200);
  const auto first = NewSession(*engine), second = NewSession(*engine);
  Feed(*engine, *first, std::span(ids).first(100));
  for (size_t i = 100; i < 200; ++i) {
    const SessionSpan span{first.get(), {&ids[i], 1}, Outputs::kNone, true};
    ASSERT_TRUE(engine->Step({&span, 1}, nullptr).ok());
  }
  for (size_t i = 0; i < 200; ++i) EXPECT_EQ(chose[i], i >= 100) << i;
  EXPECT_EQ(Feed(*engine, *second, ids), 128u) << "two pages hold all of 128 tokens, not of 192";
}

TEST(EngineCache, ASparseEngineTakesNoDenseSessionsFile) {
  const TempFolder folder;
  const std::string path = folder.path() + "/session";
  const auto dense = MakeFakeEngine();
  const auto saved = NewSession(*dense);
  Feed(*dense, *saved, Ids(70));
  ASSERT_TRUE(dense->Save(*saved, path).ok());
  for (const EngineOptions& options : {EngineOptions{.attention_window = 64}, EngineOptions{.attention_pages = 2}}) {
    const auto sparse = MakeFakeEngine(options);
    const auto session = NewSession(*sparse);
    EXPECT_EQ(sparse->Restore(*session, path).code(), Code::kUnsupported);
  }
}

// What a chat does: 20 requests, each the one before and 50 tokens; and what is reported is what is done.
TEST(EngineCache, GrowingRequestsOfThreeConversationsOnTwoSessions) {
  FakePlan* plan = nullptr;
  const auto engine = MakeFakeEngine({.n_ctx = 1200, .max_sessions = 4}, &plan);
  std::vector<std::vector<int32_t>> texts(3);
  for (uint32_t request = 0; request < 20; ++request) {
    for (uint32_t c = 0; c < 3; ++c) {
      texts[c] = Joined(texts[c], Ids(50, 1000 * c + request + 1));
      plan->tokens = 0;
      const auto session = NewSession(*engine);
      const size_t reused = Feed(*engine, *session, texts[c]);
      EXPECT_EQ(plan->tokens, texts[c].size() - reused);
      EXPECT_LE(plan->tokens, 50u + 64u) << request;
    }
  }
}

TEST(EngineCache, AllLogitsAreComputedAndNoneAreNotNeeded) {
  FakePlan* plan = nullptr;
  const auto engine = MakeFakeEngine({.max_sessions = 2}, &plan);
  const auto ids = Ids(128);
  const auto first = NewSession(*engine);
  Feed(*engine, *first, ids);
  RowsConsumer all;
  const auto second = NewSession(*engine);
  ASSERT_TRUE(engine->Prefill(*second, ids, Outputs::kAll, &all).ok());
  ASSERT_EQ(all.values.size(), 128u);
  EXPECT_EQ(all.values[70], FakeLogits(std::span(ids).first(71)));
  ASSERT_TRUE(second->Truncate(0).ok());
  plan->tokens = 0;
  std::vector<size_t> progress;
  ASSERT_TRUE(
      engine->Prefill(*second, ids, Outputs::kNone, nullptr, nullptr, [&](size_t n) { progress.push_back(n); }).ok());
  EXPECT_EQ(plan->tokens, 0u);
  EXPECT_EQ(progress, std::vector<size_t>{128});
  Feed(*engine, *second, Ids(3, 7));
}

TEST(EngineCache, SharingCanBeOff) {
  const auto engine = MakeFakeEngine({.share_prefixes = false});
  const auto ids = Ids(200);
  const auto session = NewSession(*engine);
  Feed(*engine, *session, ids);
  ASSERT_TRUE(session->Truncate(0).ok());
  EXPECT_EQ(Feed(*engine, *session, ids), 0u);
}

TEST(EngineCache, AFailedPrefillGivesBackWhatItTook) {
  FakePlan* plan = nullptr;
  const auto engine = MakeFakeEngine({.max_sessions = 2}, &plan);
  const auto ids = Ids(200);
  const auto first = NewSession(*engine), second = NewSession(*engine);
  Feed(*engine, *first, ids);
  plan->on_run = [](std::span<const StepSpan>) { return Status(Code::kInternal, "broken"); };
  RowsConsumer rows;
  EXPECT_EQ(engine->Prefill(*second, ids, Outputs::kLast, &rows).code(), Code::kInternal);
  EXPECT_EQ(second->length(), 0);
  plan->on_run = nullptr;
  EXPECT_EQ(Feed(*engine, *second, ids), 192u);
}

// A thousand prompts that never come again exhaust nothing.
TEST(EngineCache, UniquePromptsPushEachOtherOut) {
  const auto engine = MakeFakeEngine({.n_ctx = 256, .max_sessions = 1});
  for (uint32_t i = 0; i < 1000; ++i) {
    const auto session = NewSession(*engine);
    ASSERT_EQ(Feed(*engine, *session, Ids(130 + i % 127, 77 + i)), 0u);
    ASSERT_FALSE(HasFailure());
  }
}

TEST(EngineCache, AFullSessionGoesBackAndOn) {
  const auto engine = MakeFakeEngine({.n_ctx = 128, .max_sessions = 1});
  const auto session = NewSession(*engine);
  Feed(*engine, *session, Ids(128));
  for (int64_t keep = 127; keep >= 0; keep -= 9) {
    ASSERT_TRUE(session->Truncate(keep).ok());
    Feed(*engine, *session, Ids(128 - static_cast<size_t>(keep), static_cast<uint32_t>(keep) + 50));
    ASSERT_FALSE(HasFailure()) << keep;
  }
}

TEST(EngineCache, AForkGoesItsOwnWay) {
  const auto engine = MakeFakeEngine({.max_sessions = 3});
  const auto session = NewSession(*engine);
  Feed(*engine, *session, Ids(100));
  auto fork = engine->Fork(*session);
  ASSERT_TRUE(fork.ok()) << fork.status().ToString();
  EXPECT_EQ((*fork)->length(), 100);
  Feed(*engine, **fork, Ids(20, 5));
  Feed(*engine, *session, Ids(20, 6));
  Feed(*engine, **fork, Ids(60, 7));
  const auto third = engine->Fork(**fork);
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(engine->Fork(*session).status().code(), Code::kExhausted);
}

TEST(EngineCache, DroppedBlocksLeaveTheRest) {
  FakePlan* plan = nullptr;
  const auto engine = MakeFakeEngine({.n_ctx = 256}, &plan);
  const auto session = NewSession(*engine);
  const auto ids = Ids(256);
  Feed(*engine, *session, ids);
  RowsConsumer rows;
  EXPECT_EQ(engine->Prefill(*session, Ids(1), Outputs::kLast, &rows).code(), Code::kExhausted);
  const auto expect_refused = [&](int64_t first, int64_t last) {
    const Status status = session->Drop(first, last);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.ToString(), HasSubstr("multiples of 64"));
  };
  expect_refused(64, 100);
  expect_refused(1, 64);
  expect_refused(128, 64);
  expect_refused(-64, 64);
  expect_refused(64, 320);
  ASSERT_TRUE(session->Drop(64, 128).ok());
  EXPECT_EQ(session->length(), 192);
  EXPECT_EQ(session->tokens()[64], ids[128]);
  Feed(*engine, *session, Ids(64, 3));
  EXPECT_EQ(session->length(), 256);
  // A text that reads like what is left is another text: only its beginning is known.
  const std::vector<int32_t> now(session->tokens().begin(), session->tokens().end());
  ASSERT_TRUE(session->Truncate(0).ok());
  EXPECT_EQ(Feed(*engine, *session, now), 64u);
}

TEST(EngineCache, AFileBringsASessionBack) {
  const TempFolder folder;
  const std::string path = folder.path() + "/a.session";
  const auto ids = Ids(150);
  {
    const auto engine = MakeFakeEngine({.n_ctx = 256});
    const auto session = NewSession(*engine);
    Feed(*engine, *session, ids);
    ASSERT_TRUE(engine->Save(*session, path).ok());
  }
  FakePlan* plan = nullptr;
  const auto engine = MakeFakeEngine({.n_ctx = 512}, &plan);
  const auto session = NewSession(*engine);
  Feed(*engine, *session, Ids(10, 9));
  const Status restored = engine->Restore(*session, path);
  ASSERT_TRUE(restored.ok()) << restored.ToString();
  EXPECT_EQ(session->length(), 150);
  plan->tokens = 0;
  Feed(*engine, *session, Ids(5, 3));
  EXPECT_EQ(plan->tokens, 5u);
  ASSERT_TRUE(session->Truncate(0).ok());
  EXPECT_EQ(Feed(*engine, *session, ids), 0u) << "what a file says is not given to others";
}

TEST(EngineCache, AFailedRestoreChangesNothing) {
  const TempFolder folder;
  const std::string good = folder.path() + "/good.session";
  const auto engine = MakeFakeEngine({.n_ctx = 320, .max_sessions = 1});
  const auto session = NewSession(*engine);
  Feed(*engine, *session, Ids(150));
  ASSERT_TRUE(engine->Save(*session, good).ok());
  ASSERT_TRUE(session->Truncate(0).ok());
  auto held = Ids(100, 3);
  Feed(*engine, *session, held);
  const auto expect_kept = [&](const Status& status, Code code, const char* message) {
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr(message));
    ASSERT_TRUE(std::equal(held.begin(), held.end(), session->tokens().begin(), session->tokens().end()));
    RowsConsumer rows;
    ASSERT_TRUE(engine->Prefill(*session, Ids(1, 4), Outputs::kLast, &rows).ok());
    EXPECT_EQ(rows.values[0], FakeLogits(Joined(held, Ids(1, 4))));
    ASSERT_TRUE(session->Truncate(static_cast<int64_t>(held.size())).ok());
  };
  const std::string bytes = ReadWholeFile(good);
  expect_kept(engine->Restore(*session, folder.path() + "/none"), Code::kNotFound, "none");
  expect_kept(engine->Restore(*session, folder.Write("cut", bytes.substr(0, bytes.size() / 2))), Code::kCorrupt, "cut");
  std::string flipped = bytes;
  flipped[bytes.size() - 100] = static_cast<char>(flipped[bytes.size() - 100] ^ 1);
  expect_kept(engine->Restore(*session, folder.Write("flipped", flipped)), Code::kCorrupt, "checksum");
}

// A file in memory that is another one from some read on, or can't be read any more.
struct ChangingFile {
  std::string bytes;
  uint64_t changes_at = UINT64_MAX;  // bytes that are read before
  Code then = Code::kCorrupt;        // kIo: reads fail
  uint64_t read = 0;
  ByteSource Source() {
    return {"a.session", bytes.size(), [this](uint64_t offset, void* out, size_t size) {
              if (read >= changes_at && then == Code::kIo) return Status(Code::kIo, "the disk is gone");
              if (read >= changes_at) bytes[bytes.size() - 100] ^= 1;
              if (read >= changes_at) changes_at = UINT64_MAX;
              std::memcpy(out, bytes.data() + offset, size);
              read += size;
              return Status();
            }};
  }
};

// Five pages, of which the session has four; the file needs three.
class WithoutRoomForBoth : public testing::Test {
 protected:
  WithoutRoomForBoth() : engine_(MakeFakeEngine({.n_ctx = 320, .max_sessions = 1})), session_(NewSession(*engine_)) {
    file_.bytes = SavedBy(*engine_, *session_, saved_);
    EXPECT_TRUE(session_->Truncate(0).ok());
    Feed(*engine_, *session_, held_);
  }
  static std::string SavedBy(Engine& engine, Session& session, const std::vector<int32_t>& text) {
    const TempFolder folder;
    Feed(engine, session, text);
    EXPECT_TRUE(engine.Save(session, folder.path() + "/a.session").ok());
    return ReadWholeFile(folder.path() + "/a.session");
  }
  // Feed compares logits, which depend on all that the pages hold.
  void ExpectHolds(const std::vector<int32_t>& text) {
    ASSERT_TRUE(std::equal(text.begin(), text.end(), session_->tokens().begin(), session_->tokens().end()));
    Feed(*engine_, *session_, Ids(5, 4));
    ASSERT_TRUE(session_->Truncate(static_cast<int64_t>(text.size())).ok());
  }

  const std::vector<int32_t> saved_ = Ids(150), held_ = Ids(200, 3);
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
  ChangingFile file_;
};

TEST_F(WithoutRoomForBoth, TheFilesTextTakesThePlaceOfTheOther) {
  const Status restored = engine_->Read(*session_, file_.Source());
  ASSERT_TRUE(restored.ok()) << restored.ToString();
  ExpectHolds(saved_);
  EXPECT_GT(file_.read, file_.bytes.size() + 3 * 64 * sizeof(int32_t)) << "it was checked first";
  file_.read = 0;
  ASSERT_TRUE(session_->Truncate(0).ok());
  ASSERT_TRUE(engine_->Read(*session_, file_.Source()).ok());
  EXPECT_LT(file_.read, file_.bytes.size() + 200) << "once is enough where there is room";
}

TEST_F(WithoutRoomForBoth, AFileThatDoesNotServeChangesNothing) {
  const std::string good = file_.bytes;
  for (const size_t at : {size_t{40}, good.size() / 2, good.size() - 100, good.size() - 1}) {
    file_.bytes = good;
    file_.bytes[at] ^= 1;
    EXPECT_FALSE(engine_->Read(*session_, file_.Source()).ok()) << at;
    ExpectHolds(held_);
  }
  file_.bytes = good.substr(0, good.size() - 1);
  EXPECT_EQ(engine_->Read(*session_, file_.Source()).code(), Code::kCorrupt);
  ExpectHolds(held_);
  const auto larger = MakeFakeEngine({.n_ctx = 512});
  file_.bytes = SavedBy(*larger, *NewSession(*larger), Ids(400));
  EXPECT_EQ(engine_->Read(*session_, file_.Source()).code(), Code::kExhausted) << "400 tokens, 320 are allowed";
  ExpectHolds(held_);
  file_ = {good, good.size() / 2, Code::kIo};
  EXPECT_EQ(engine_->Read(*session_, file_.Source()).code(), Code::kIo);
  ExpectHolds(held_);
}

TEST_F(WithoutRoomForBoth, AStreamIsRefused) {
  ByteSource stream = file_.Source();
  stream.size.reset();
  const Status status = engine_->Read(*session_, stream);
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_THAT(status.ToString(), HasSubstr("truncate the session to 0 first: it keeps its 200 tokens"));
  ExpectHolds(held_);
  ASSERT_TRUE(session_->Truncate(0).ok());
  ASSERT_TRUE(engine_->Read(*session_, stream).ok());
  ExpectHolds(saved_);
}

TEST_F(WithoutRoomForBoth, AFileThatChangesAfterItWasCheckedLeavesNothing) {
  const std::string good = file_.bytes;
  for (const Code code : {Code::kCorrupt, Code::kIo}) {
    file_ = {good, good.size() + 200, code};
    const Status status = engine_->Read(*session_, file_.Source());
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr("the session is empty"));
    EXPECT_EQ(session_->length(), 0);
    file_ = {good};
    ASSERT_TRUE(engine_->Read(*session_, file_.Source()).ok());
    ExpectHolds(saved_);
    ASSERT_TRUE(session_->Truncate(0).ok());
    Feed(*engine_, *session_, held_);
  }
}

TEST(EngineCache, AFileOfAnotherVariantNeedsConsent) {
  const TempFolder folder;
  const std::string path = folder.path() + "/a.session";
  size_t count = 0;
  const Variant* built = BuiltVariants(&count);
  std::vector<const char*> runnable;
  for (size_t i = 0; i < count; ++i) {
    if (CanRun(built[i], CpuFeatures())) runnable.push_back(VariantName(built[i]));
  }
  if (runnable.size() < 2) GTEST_SKIP() << "this build and machine have one variant";
  EngineOptions options;
  options.default_key_type = options.default_value_type = false;
  options.variant = runnable[0];
  const auto writer = MakeFakeEngine(options);
  const auto written = NewSession(*writer);
  Feed(*writer, *written, Ids(70));
  ASSERT_TRUE(writer->Save(*written, path).ok());
  options.variant = runnable[1];
  const auto reader = MakeFakeEngine(options);
  const auto session = NewSession(*reader);
  const Status refused = reader->Restore(*session, path);
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_THAT(refused.ToString(), HasSubstr(runnable[0]));
  EXPECT_THAT(refused.ToString(), HasSubstr(runnable[1]));
  EXPECT_EQ(session->length(), 0);
  ASSERT_TRUE(reader->Restore(*session, path, {.any_variant = true}).ok());
  Feed(*reader, *session, Ids(3, 8));
}

TEST(EngineCache, ASessionInUseIsBusyForAllOfIt) {
  const TempFolder folder;
  FakePlan* plan = nullptr;
  const auto engine = MakeFakeEngine({.max_sessions = 2}, &plan);
  const auto session = NewSession(*engine);
  const auto ids = Ids(3);
  plan->on_run = [&](std::span<const StepSpan>) {
    EXPECT_EQ(session->Drop(0, 0).code(), Code::kBusy);
    EXPECT_EQ(engine->Fork(*session).status().code(), Code::kBusy);
    EXPECT_EQ(engine->Save(*session, folder.path() + "/a").code(), Code::kBusy);
    EXPECT_EQ(engine->Restore(*session, folder.path() + "/a").code(), Code::kBusy);
    return Status();
  };
  ASSERT_TRUE(engine->Prefill(*session, ids, Outputs::kNone, nullptr).ok());
  EXPECT_EQ(folder.FileCount(), 0u);
}

// Run under the thread sanitizer too: forks, files and shared beginnings from several threads.
TEST(EngineCache, ThreadsThatShareBeginnings) {
  const TempFolder folder;
  const auto engine = MakeFakeEngine({.max_sessions = 8, .chunk_tokens = 32});
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::string path = folder.path() + "/" + std::to_string(t);
      for (uint32_t round = 0; round < 15; ++round) {
        const auto session = NewSession(*engine);
        Feed(*engine, *session, Joined(Ids(130, round), Ids(20, t)));
        const auto fork = engine->Fork(*session);
        ASSERT_TRUE(fork.ok());
        ASSERT_TRUE(session->Drop(64, 128).ok());
        Feed(*engine, *session, Ids(30, t + 9));
        Feed(*engine, **fork, Ids(40, t + 5));
        ASSERT_TRUE(engine->Save(*session, path).ok());
        ASSERT_TRUE((*fork)->Truncate(3).ok());
        ASSERT_TRUE(engine->Restore(**fork, path).ok());
        Feed(*engine, **fork, Ids(10, 2));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(EngineCache, GenerateSaysWhatItReused) {
  const auto engine = MakeFakeEngine({.max_sessions = 2});
  const auto ids = Ids(150);
  for (const size_t reused : {0, 128}) {
    const auto session = NewSession(*engine);
    auto sampler = Sampler::Create({});
    ASSERT_TRUE(sampler.ok());
    GenerateOptions options;
    options.max_tokens = 2;
    options.ignore_end = true;
    const auto result = Generate(*engine, *session, ids, *sampler, options);
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    EXPECT_EQ(result.value().prompt_tokens, 150u);
    EXPECT_EQ(result.value().reused_tokens, reused);
  }
}

}  // namespace
}  // namespace moonlit
