// SPDX-License-Identifier: Apache-2.0
// Whose steps have a tap: those of its session that read tokens for the first time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/decode/engine.h"
#include "runtime/exec/step_tap.h"
#include "tests/decode/fake_model.h"

namespace moonlit {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class NoTap : public StepTap {
 public:
  bool WantsStream(int) const override { return false; }
  bool WantsAttention(size_t) const override { return false; }
  Status TakeStream(const TappedStream&) override { return Status(); }
  Status TakeAttention(TappedAttention&) override { return Status(); }
};

// Taps of the spans that the plan has run.
struct Engined {
  explicit Engined(const EngineOptions& options, const std::vector<size_t>& lookbacks = {0}) {
    engine = MakeFakeEngine(options, &plan, true, lookbacks);
    plan->on_run = [this](std::span<const StepSpan> spans) {
      for (const StepSpan& span : spans) taps.push_back(span.tap);
      return Status();
    };
  }
  FakePlan* plan = nullptr;
  std::unique_ptr<Engine> engine;
  std::vector<StepTap*> taps;
};

TEST(EngineTap, GoesWithItsSession) {
  NoTap tap;
  Engined e({.max_sessions = 3});
  auto a = std::move(e.engine->NewSession()).value(), b = std::move(e.engine->NewSession()).value();
  ASSERT_TRUE(a->SetTap(&tap).ok());
  const std::vector<int32_t> ids = Ids(3);
  const SessionSpan spans[] = {{a.get(), ids, Outputs::kNone}, {b.get(), ids, Outputs::kNone}};
  ASSERT_TRUE(e.engine->Step(spans, nullptr).ok());
  EXPECT_THAT(e.taps, ElementsAre(&tap, nullptr));
  auto fork = std::move(e.engine->Fork(*a)).value();
  const SessionSpan of_fork{fork.get(), ids, Outputs::kNone};
  ASSERT_TRUE(e.engine->Step({&of_fork, 1}, nullptr).ok());
  EXPECT_EQ(e.taps.back(), nullptr);
  ASSERT_TRUE(a->SetTap(nullptr).ok());
  ASSERT_TRUE(e.engine->Step({spans, 1}, nullptr).ok());
  EXPECT_EQ(e.taps.back(), nullptr);
}

// What another session has left in the cache would not be seen.
TEST(EngineTap, TakesNothingFromTheCache) {
  NoTap tap;
  Engined e({.max_sessions = 2});
  auto a = std::move(e.engine->NewSession()).value(), b = std::move(e.engine->NewSession()).value();
  const std::vector<int32_t> ids = Ids(130);
  size_t reused = 1;
  ASSERT_TRUE(e.engine->Prefill(*a, ids, Outputs::kNone, nullptr, nullptr, {}, &reused).ok());
  ASSERT_TRUE(b->SetTap(&tap).ok());
  ASSERT_TRUE(e.engine->Prefill(*b, ids, Outputs::kNone, nullptr, nullptr, {}, &reused).ok());
  EXPECT_EQ(reused, 0u);
  EXPECT_EQ(e.plan->tokens, 260u);
}

// Tokens that a cut reads again have been seen.
TEST(EngineTap, SeesNoTokenTwice) {
  NoTap tap;
  Engined e({.n_ctx = 4000, .chunk_tokens = 256, .share_prefixes = false}, {0, 200});
  auto session = std::move(e.engine->NewSession()).value();
  ASSERT_TRUE(session->SetTap(&tap).ok());
  ASSERT_TRUE(e.engine->Prefill(*session, Ids(3000), Outputs::kNone, nullptr).ok());
  EXPECT_THAT(e.taps, Each(&tap));
  e.taps.clear();
  ASSERT_TRUE(session->Truncate(1000).ok());
  ASSERT_FALSE(e.taps.empty()) << "the window's pages are gone, so it has to read";
  EXPECT_THAT(e.taps, Each(nullptr));
}

}  // namespace
}  // namespace moonlit
