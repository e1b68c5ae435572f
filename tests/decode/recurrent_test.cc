// SPDX-License-Identifier: Apache-2.0
// Sessions of a model that has nothing but a recurrent state: a hash of all tokens so far, from which its logits are made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "tests/decode/fake_model.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

using testing::HasSubstr;

class StatePlan final : public Plan {
 public:
  explicit StatePlan(const PlanOptions& options) : options_(options) {}
  size_t vocab_size() const override { return kFakeVocab; }
  const PlanOptions& options() const override { return options_; }
  const std::vector<PageLayout>& cache_groups() const override { return groups_; }
  size_t state_bytes() const override { return sizeof(uint64_t); }
  PlanSize size() const override { return {}; }
  std::string Describe() const override { return "a fake with a state"; }

  Status Run(std::span<const StepSpan> spans, LogitsConsumer* consumer, AbortFlags) override {
    for (size_t s = 0; s < spans.size(); ++s) {
      const StepSpan& span = spans[s];
      steps.push_back({span.first_slot, span.first_slot + static_cast<int64_t>(span.tokens.size())});
      EXPECT_EQ(span.state == nullptr, span.first_slot == 0);
      uint64_t hash = 1;
      if (span.state != nullptr) std::memcpy(&hash, span.state, sizeof(hash));
      for (int32_t id : span.tokens) hash = Next(hash, id);
      std::memcpy(span.next_state, &hash, sizeof(hash));
      if (fail_at != 0 && steps.size() >= fail_at) return Status(Code::kCancelled, "cancelled");
      if (span.outputs == Outputs::kNone) continue;
      const std::vector<float> logits = Logits(hash);
      consumer->Consume(s, span.tokens.size() - 1, 1, logits.data(), logits.size());
    }
    return Status();
  }

  static uint64_t Next(uint64_t hash, int32_t id) { return (hash ^ static_cast<uint64_t>(id)) * 0x100000001B3; }
  static std::vector<float> Logits(uint64_t hash) {
    std::vector<float> logits(kFakeVocab);
    for (float& logit : logits) logit = static_cast<float>((hash = hash * 6364136223846793005u + 1) >> 40);
    return logits;
  }

  size_t fail_at = 0;                              // the step number that fails, as do all after it
  std::vector<std::pair<int64_t, int64_t>> steps;  // [first, end) of every span

 private:
  PlanOptions options_;
  std::vector<PageLayout> groups_;
};

class RecurrentEngine : public testing::Test {
 protected:
  explicit RecurrentEngine() { Make({.threads = 2, .n_ctx = 1000, .max_sessions = 3, .chunk_tokens = 128}); }

  void Make(const EngineOptions& options) {
    LoadedModel model = MakeFakeModel(nullptr, 1000);
    model.make_plan = [this](const PlanOptions& plan_options) -> Result<std::unique_ptr<Plan>> {
      auto made = std::make_unique<StatePlan>(plan_options);
      plan_ = made.get();
      return std::unique_ptr<Plan>(std::move(made));
    };
    auto engine = Engine::Create(std::move(model), options);
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    engine_ = std::move(engine).value();
  }

  std::unique_ptr<Session> NewSession() {
    auto session = engine_->NewSession();
    EXPECT_TRUE(session.ok()) << session.status().ToString();
    return std::move(session).value();
  }

  static std::vector<int32_t> Ids(size_t n, uint32_t seed) {
    std::vector<int32_t> ids(n);
    for (int32_t& id : ids) id = static_cast<int32_t>((seed = seed * 1664525u + 1013904223u) >> 8) % 200;
    return ids;
  }

  // Prefills and checks the logits against all of the session's tokens.
  void Feed(Session& session, std::span<const int32_t> ids) {
    RowsConsumer rows;
    size_t reused = 1;
    const Status status = engine_->Prefill(session, ids, Outputs::kLast, &rows, nullptr, {}, &reused);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(reused, 0u);
    uint64_t hash = 1;
    for (int32_t id : session.tokens()) hash = StatePlan::Next(hash, id);
    ASSERT_EQ(rows.values.size(), 1u);
    EXPECT_EQ(rows.values[0], StatePlan::Logits(hash));
  }

  StatePlan* plan_ = nullptr;
  std::unique_ptr<Engine> engine_;
};

TEST_F(RecurrentEngine, ReadsGoesOnAndStartsAgain) {
  const auto session = NewSession();
  Feed(*session, Ids(300, 1));
  for (uint32_t i = 0; i < 5; ++i) Feed(*session, Ids(1, i));
  ASSERT_TRUE(session->Truncate(305).ok());
  Feed(*session, Ids(3, 2));
  ASSERT_TRUE(session->Truncate(0).ok());
  Feed(*session, Ids(10, 3));
}

TEST_F(RecurrentEngine, NothingIsReusedThatHasNoState) {
  const std::vector<int32_t> ids = Ids(300, 4);
  { Feed(*NewSession(), ids); }
  Feed(*NewSession(), ids);
}

TEST_F(RecurrentEngine, LongPromptsAreCutWhereTheRecurrenceIs) {
  const auto session = NewSession();
  Feed(*session, Ids(10, 5));
  plan_->steps.clear();
  Feed(*session, Ids(300, 6));
  const std::vector<std::pair<int64_t, int64_t>> expected = {{10, 128}, {128, 256}, {256, 310}};
  EXPECT_EQ(plan_->steps, expected);
  Make({.threads = 1, .n_ctx = 1000, .chunk_tokens = 40});  // shorter than a chunk of the recurrence
  const auto other = NewSession();
  Feed(*other, Ids(130, 7));
  const std::vector<std::pair<int64_t, int64_t>> shorter = {{0, 40}, {40, 64}, {64, 104}, {104, 130}};
  EXPECT_EQ(plan_->steps, shorter);
}

// Another thread had the step before the first of these.
TEST_F(RecurrentEngine, SmallPiecesBesideOthersAreCutThereToo) {
  const auto session = NewSession(), other = NewSession();
  Feed(*session, Ids(10, 5));
  std::thread([&] { Feed(*other, Ids(1, 6)); }).join();
  plan_->steps.clear();
  Feed(*session, Ids(500, 7));
  const std::vector<std::pair<int64_t, int64_t>> expected = {{10, 64},   {64, 128},  {128, 192},
                                                             {192, 256}, {256, 384}, {384, 510}};
  EXPECT_EQ(plan_->steps, expected);
}

TEST_F(RecurrentEngine, APrefillThatFailsLeavesTheSessionAsItWas) {
  const auto session = NewSession();
  for (size_t held : {0u, 100u}) {
    if (held > 0) Feed(*session, Ids(held, 8));
    for (size_t step = 1; step <= 3; ++step) {
      plan_->steps.clear();
      plan_->fail_at = step;
      const std::vector<int32_t> ids = Ids(300, 9);
      EXPECT_EQ(engine_->Prefill(*session, ids, Outputs::kNone, nullptr).code(), Code::kCancelled);
      EXPECT_EQ(session->length(), static_cast<int64_t>(held)) << "step " << step;
    }
    plan_->fail_at = 0;
    Feed(*session, Ids(20, 10));
    if (held == 0) {
      ASSERT_TRUE(session->Truncate(0).ok());
    }
  }
}

TEST_F(RecurrentEngine, ManyFailuresLoseNoState) {
  const auto a = NewSession(), b = NewSession(), c = NewSession();
  for (uint32_t i = 0; i < 20; ++i) {
    plan_->steps.clear();
    plan_->fail_at = 2;
    EXPECT_FALSE(engine_->Prefill(*a, Ids(300, i), Outputs::kNone, nullptr).ok());
    plan_->fail_at = 0;
    Feed(*b, Ids(10, i));
    Feed(*c, Ids(7, i));
  }
}

TEST_F(RecurrentEngine, ForksGoTheirOwnWays) {
  const auto session = NewSession();
  Feed(*session, Ids(70, 11));
  auto fork = engine_->Fork(*session);
  ASSERT_TRUE(fork.ok());
  Feed(**fork, Ids(5, 12));
  Feed(*session, Ids(6, 13));
  Feed(**fork, Ids(200, 14));
  EXPECT_EQ((*fork)->length(), 275);
}

TEST_F(RecurrentEngine, RefusesToGoBackAndToForgetTheMiddle) {
  const auto session = NewSession();
  Feed(*session, Ids(70, 15));
  const Status cut = session->Truncate(64), dropped = session->Drop(0, 64);
  EXPECT_EQ(cut.code(), Code::kUnsupported);
  EXPECT_THAT(std::string(cut.message()), HasSubstr("can't go back from 70 tokens to 64"));
  EXPECT_EQ(dropped.code(), Code::kUnsupported);
  EXPECT_EQ(session->length(), 70);
  Feed(*session, Ids(5, 16));
}

TEST_F(RecurrentEngine, SavesAndRestores) {
  const TempFolder folder;
  const std::string path = folder.path() + "/a.session";
  const auto session = NewSession();
  Feed(*session, Ids(70, 17));
  ASSERT_TRUE(engine_->Save(*session, path).ok());
  const auto other = NewSession();
  Feed(*other, Ids(9, 18));
  const Status restored = engine_->Restore(*other, path);
  ASSERT_TRUE(restored.ok()) << restored.ToString();
  EXPECT_EQ(other->length(), 70);
  Feed(*other, Ids(5, 19));
  Feed(*session, Ids(6, 20));
}

}  // namespace
}  // namespace moonlit
