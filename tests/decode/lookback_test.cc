// SPDX-License-Identifier: Apache-2.0
// Sessions of models with windows: pages that no token sees are given back, and whatever is done to a session, its text is read as
// if they were there. The fake model fails where a token misses one that it should see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "runtime/decode/engine.h"
#include "tests/decode/fake_model.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

constexpr size_t kPage = 64;

// The pages of a group that steps have been given.
struct PagesSeen {
  explicit PagesSeen(size_t g) : group(g) {}
  void See(std::span<const StepSpan> spans) {
    for (const StepSpan& span : spans) {
      const size_t count = (static_cast<size_t>(span.first_slot) + span.tokens.size() + kPage - 1) / kPage;
      size_t now = 0;
      for (size_t i = 0; i < count; ++i) {
        if (span.pages[group][i] == nullptr) continue;
        all.insert(span.pages[group][i]);
        ++now;
      }
      most = std::max(most, now);
    }
  }
  size_t group;
  std::set<const uint8_t*> all;
  size_t most = 0;
};

// Without limit to the text: what one session holds, and what the whole group has.
TEST(EngineLookback, MemoryOfAWindowIsBounded) {
  for (bool share : {false, true}) {
    FakePlan* plan = nullptr;
    const auto engine =
        MakeFakeEngine({.n_ctx = 40000, .chunk_tokens = 256, .share_prefixes = share}, &plan, true, {0, 200});
    PagesSeen whole(0), window(1);
    plan->on_run = [&](std::span<const StepSpan> spans) {
      whole.See(spans);
      window.See(spans);
      return Status();
    };
    const auto session = NewSession(*engine);
    Feed(*engine, *session, Ids(39000));
    for (int32_t id : Ids(200, 5)) {
      const SessionSpan span{session.get(), {&id, 1}, Outputs::kNone};
      ASSERT_TRUE(engine->Step({&span, 1}, nullptr).ok());
    }
    EXPECT_EQ(whole.most, 613u);
    // 200 tokens that begin inside a page, a spare page, and 256 new tokens.
    EXPECT_LE(window.most, 4u + 1 + 1 + 4);
    // A session's 4 + 3, twice for failures, twice for shared beginnings; and a step's.
    EXPECT_LE(window.all.size(), (share ? 28u : 14u) + 4u);
  }
}

// The session is shorter then, and as good as any.
TEST(EngineLookback, ACutThatReadsAgainCanBeCancelled) {
  FakePlan* plan = nullptr;
  const auto engine =
      MakeFakeEngine({.n_ctx = 4000, .chunk_tokens = 128, .share_prefixes = false}, &plan, true, {0, 100});
  for (const bool drop : {false, true}) {
    const auto session = NewSession(*engine);
    Feed(*engine, *session, Ids(3008));
    std::atomic<bool> cancel{false};
    size_t runs = 0;
    plan->on_run = [&](std::span<const StepSpan>) {
      cancel = ++runs == 3;
      return Status();
    };
    const Status cut = drop ? session->Drop(512, 3008, &cancel) : session->Truncate(500, &cancel);
    plan->on_run = nullptr;
    EXPECT_EQ(cut.code(), Code::kCancelled);
    EXPECT_EQ(runs, 3u);
    EXPECT_EQ(session->length(), 256);
    Feed(*engine, *session, Ids(700, 3));
  }
}

TEST(EngineLookback, ACutReadsAgainWhatIsGone) {
  FakePlan* plan = nullptr;
  const auto engine = MakeFakeEngine({.n_ctx = 4000, .chunk_tokens = 128}, &plan, true, {0, 100});
  const auto session = NewSession(*engine);
  Feed(*engine, *session, Ids(3000));
  plan->tokens = 0;
  ASSERT_TRUE(session->Truncate(2950).ok());
  EXPECT_EQ(plan->tokens, 0u) << "the spare page";
  ASSERT_TRUE(session->Truncate(2800).ok());
  EXPECT_EQ(plan->tokens, 0u) << "the prefix index";
  ASSERT_TRUE(session->Truncate(500).ok());
  EXPECT_EQ(plan->tokens, 500u);
  EXPECT_EQ(session->length(), 500);
  Feed(*engine, *session, Ids(1000, 3));
}

// A prefill that fails after it gave pages back finds them.
TEST(EngineLookback, AFailedPrefillLeavesTheSessionAsItWas) {
  for (bool share : {false, true}) {
    FakePlan* plan = nullptr;
    const auto engine =
        MakeFakeEngine({.n_ctx = 4000, .chunk_tokens = 128, .share_prefixes = share}, &plan, true, {0, 100});
    const auto session = NewSession(*engine);
    Feed(*engine, *session, Ids(300));
    const size_t runs = plan->runs;
    plan->on_run = [&](std::span<const StepSpan>) {
      return plan->runs > runs + 20 ? Status(Code::kInternal, "broken") : Status();
    };
    EXPECT_EQ(engine->Prefill(*session, Ids(3500, 2), Outputs::kNone, nullptr).code(), Code::kInternal);
    plan->on_run = nullptr;
    EXPECT_EQ(session->length(), 300);
    plan->tokens = 0;
    Feed(*engine, *session, Ids(10, 3));
    EXPECT_EQ(plan->tokens, 10u);
  }
}

TEST(EngineLookback, BeginningsAreSharedBehindTheWindow) {
  FakePlan* plan = nullptr;
  const auto engine = MakeFakeEngine({.n_ctx = 4000, .max_sessions = 2}, &plan, true, {0, 100});
  std::vector<int32_t> ids = Ids(1300);
  const auto first = NewSession(*engine);
  Feed(*engine, *first, ids);
  for (size_t i = 1000; i < ids.size(); ++i) ids[i] = 5;
  const auto second = NewSession(*engine);
  EXPECT_EQ(Feed(*engine, *second, ids), 960u) << "far behind what the first one sees";
}

// Tokens with positions of their own can't be read again by their ids, wherever a drop has moved them to.
TEST(EngineLookback, ADropMovesThePlacedTokens) {
  struct {
    int64_t first, last;       // what is dropped
    int64_t readable, beyond;  // lengths of cuts that are read again, and that can't be
  } const cases[] = {{64, 320, 384, 385}, {64, 640, 64, 65}, {640, 704, 640, 641}, {704, 1280, 640, 641}};
  for (const auto& c : cases) {
    FakePlan* plan = nullptr;
    const auto engine = MakeFakeEngine({.n_ctx = 4000, .share_prefixes = false}, &plan, true, {0, 100});
    const auto session = NewSession(*engine);
    Feed(*engine, *session, Ids(640));
    const std::vector<int32_t> placed = Ids(70, 2), positions(70, 7);
    const SessionSpan span{session.get(), placed, Outputs::kNone, false, nullptr, positions};
    ASSERT_TRUE(engine->Step({&span, 1}, nullptr).ok());
    Feed(*engine, *session, Ids(2000, 3));
    ASSERT_TRUE(session->Drop(c.first, c.last).ok());
    const size_t tokens = plan->tokens;
    EXPECT_EQ(session->Truncate(c.beyond).code(), Code::kUnsupported) << c.first << " to " << c.last;
    EXPECT_EQ(plan->tokens, tokens);
    ASSERT_TRUE(session->Truncate(c.readable).ok()) << c.first << " to " << c.last;
    EXPECT_GT(plan->tokens, tokens);
    Feed(*engine, *session, Ids(1000, 4));
    EXPECT_TRUE(session->Truncate(c.readable + 300).ok()) << "no placed token is left";
  }
}

TEST(EngineLookback, APrefixIsNotReadAgain) {
  const auto engine = MakeFakeEngine({.n_ctx = 4000, .share_prefixes = false}, nullptr, true, {0, 100});
  const auto session = NewSession(*engine);
  Feed(*engine, *session, Ids(640));
  const std::vector<int32_t> image = Ids(70, 2);
  SessionSpan span{session.get(), image, Outputs::kNone};
  span.prefix = 50;
  ASSERT_TRUE(engine->Step({&span, 1}, nullptr).ok());
  Feed(*engine, *session, Ids(2000, 3));
  EXPECT_EQ(session->Truncate(700).code(), Code::kUnsupported);
  EXPECT_TRUE(session->Truncate(640).ok());
}

// A file remembers which tokens can't be read again by their ids, whether the engine that wrote it gives pages back or not.
TEST(EngineLookback, AFileRemembersThePlacedTokens) {
  for (const size_t context : {1200, 4000}) {
    const TempFolder folder;
    const std::string path = folder.path() + "/a.session";
    const auto engine = MakeFakeEngine({.n_ctx = context}, nullptr, true, {0, 100});
    const auto saved = NewSession(*engine);
    Feed(*engine, *saved, Ids(200));
    const std::vector<int32_t> placed = Ids(70, 2), positions(70, 7);
    const SessionSpan span{saved.get(), placed, Outputs::kNone, false, nullptr, positions};
    ASSERT_TRUE(engine->Step({&span, 1}, nullptr).ok());
    const Status written = engine->Save(*saved, path);
    ASSERT_TRUE(written.ok()) << written.ToString();

    FakePlan* plan = nullptr;
    const auto other = MakeFakeEngine({.n_ctx = 4000, .share_prefixes = false}, &plan, true, {0, 100});
    const auto session = NewSession(*other);
    ASSERT_TRUE(other->Restore(*session, path).ok());
    Feed(*other, *session, Ids(2000, 3));
    EXPECT_EQ(session->Truncate(260).code(), Code::kUnsupported);
    EXPECT_EQ(session->Truncate(201).code(), Code::kUnsupported);
    plan->tokens = 0;
    ASSERT_TRUE(session->Truncate(200).ok());
    EXPECT_EQ(plan->tokens, 200u);
    ASSERT_TRUE(other->Save(*session, path).ok()) << "no placed token is left";
    ASSERT_TRUE(other->Restore(*session, path).ok());
    Feed(*other, *session, Ids(2000, 3));
    EXPECT_TRUE(session->Truncate(1000).ok());
  }
}

// Where the context is too short for anything to be gained, all pages are kept; but a file may lack some.
TEST(EngineLookback, AShortContextTakesTheFileOfALongOne) {
  const TempFolder folder;
  const std::string path = folder.path() + "/a.session";
  const auto engine = MakeFakeEngine({.n_ctx = 4000}, nullptr, true, {0, 100});
  const auto saved = NewSession(*engine);
  Feed(*engine, *saved, Ids(1000));
  ASSERT_TRUE(engine->Save(*saved, path).ok());
  FakePlan* plan = nullptr;
  const auto other = MakeFakeEngine({.n_ctx = 1200, .max_sessions = 1}, &plan, true, {0, 100});
  const auto session = NewSession(*other);
  const Status restored = other->Restore(*session, path);
  ASSERT_TRUE(restored.ok()) << restored.ToString();
  Feed(*other, *session, Ids(90, 3));
  ASSERT_TRUE(session->Truncate(1000).ok());
  EXPECT_EQ(plan->tokens, 90u);
  ASSERT_TRUE(session->Truncate(300).ok());
  EXPECT_EQ(plan->tokens, 390u);
  Feed(*other, *session, Ids(90, 4));
  ASSERT_TRUE(session->Truncate(20).ok());
  EXPECT_EQ(plan->tokens, 480u) << "it keeps all";
}

// The other way round, all pages come, and there is no room for so many.
TEST(EngineLookback, ALongContextTakesTheFileOfAShortOne) {
  const TempFolder folder;
  const std::string path = folder.path() + "/a.session";
  const auto engine = MakeFakeEngine({.n_ctx = 1200}, nullptr, true, {0, 100});
  const auto saved = NewSession(*engine);
  Feed(*engine, *saved, Ids(1000));
  ASSERT_TRUE(engine->Save(*saved, path).ok());
  FakePlan* plan = nullptr;
  const auto other =
      MakeFakeEngine({.n_ctx = 4000, .chunk_tokens = 64, .share_prefixes = false}, &plan, true, {0, 100});
  const auto session = NewSession(*other);
  const Status restored = other->Restore(*session, path);
  ASSERT_TRUE(restored.ok()) << restored.ToString();
  Feed(*other, *session, Ids(90, 3));
  ASSERT_TRUE(session->Truncate(1000).ok());
  ASSERT_TRUE(session->Truncate(950).ok());
  EXPECT_EQ(plan->tokens, 90u + 950) << "a page less than the next token sees";
}

// All that sessions can do, on an engine whose groups have hardly more than they need.
TEST(EngineLookback, ManyThingsAtRandom) {
  size_t cuts = 0, drops = 0, forks = 0, restored = 0, reused = 0;
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    const TempFolder folder;
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return random() % n; };
    const auto engine =
        MakeFakeEngine({.n_ctx = 3000, .max_sessions = 4, .chunk_tokens = 96, .share_prefixes = seed % 3 != 0}, nullptr,
                       true, {0, 70, 150});
    std::vector<std::unique_ptr<Session>> sessions;
    for (int step = 0; step < 150; ++step) {
      if (sessions.empty() || (below(5) == 0 && sessions.size() < 4)) {
        sessions.push_back(NewSession(*engine));
        std::vector<int32_t> ids = Ids(100 + below(1500), static_cast<uint32_t>(below(2)));
        ids.push_back(static_cast<int32_t>(below(9)));
        reused += Feed(*engine, *sessions.back(), ids);
      }
      const size_t i = below(sessions.size());
      Session& s = *sessions[i];
      const auto length = static_cast<size_t>(s.length());
      const std::string path = folder.path() + "/" + std::to_string(i % 2);
      switch (below(7)) {
        case 0: {
          const size_t keep = below(length + 1);
          const std::vector<int32_t> kept(s.tokens().begin(), s.tokens().begin() + static_cast<std::ptrdiff_t>(keep));
          const Status status = s.Truncate(static_cast<int64_t>(keep));
          ASSERT_TRUE(status.ok()) << status.ToString();
          ASSERT_TRUE(std::equal(kept.begin(), kept.end(), s.tokens().begin(), s.tokens().end()));
          ++cuts;
          break;
        }
        case 1: {  // a window is left behind the gap
          if (length < 10 * kPage) break;
          const size_t last = below((length - 150) / kPage + 1) * kPage, first = below(last / kPage + 1) * kPage;
          ASSERT_TRUE(s.Drop(static_cast<int64_t>(first), static_cast<int64_t>(last)).ok());
          ++drops;
          break;
        }
        case 2:
          if (sessions.size() < 4) {
            auto fork = engine->Fork(s);
            ASSERT_TRUE(fork.ok());
            sessions.push_back(std::move(*fork));
            ++forks;
          }
          break;
        case 3:
          ASSERT_TRUE(engine->Save(s, path).ok());
          break;
        case 4: {
          const Status status = engine->Restore(s, path);
          ASSERT_TRUE(status.ok() || status.code() == Code::kNotFound || status.code() == Code::kExhausted)
              << status.ToString();
          restored += status.ok() ? 1 : 0;
          break;
        }
        case 5:
          sessions.erase(sessions.begin() + static_cast<std::ptrdiff_t>(i));
          continue;
        default:
          break;
      }
      const size_t room = 3000 - static_cast<size_t>(s.length());
      if (room > 0) Feed(*engine, s, Ids(1 + below(std::min<size_t>(room, 400)), static_cast<uint32_t>(below(1000))));
      ASSERT_FALSE(HasFailure()) << "seed " << seed << " step " << step;
    }
  }
  EXPECT_GT(cuts, 40u);
  EXPECT_GT(drops, 20u);
  EXPECT_GT(forks, 20u);
  EXPECT_GT(restored, 20u);
  EXPECT_GT(reused, 1000u);
}

}  // namespace
}  // namespace moonlit
