// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <stdexcept>
#include <thread>

#include "tests/decode/fake_model.h"

namespace moonlit {
namespace {

using testing::HasSubstr;

TEST(Engine, FillsInTheDefaults) {
  auto engine = Engine::Create(MakeFakeModel(nullptr, 100000), {.threads = 3});
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  const Engine& e = **engine;
  EXPECT_EQ(e.options().n_ctx, 4096u) << "a long training context is not reserved unasked";
  EXPECT_EQ(e.threads(), 3u);
  EXPECT_EQ(e.options().threads, 3u);
  EXPECT_EQ(e.options().variant, VariantName(e.variant()));
  EXPECT_EQ(e.facts().architecture, "fake");
  EXPECT_EQ(MakeFakeEngine()->options().n_ctx, 256u) << "a short one is a limit";
  EXPECT_EQ(MakeFakeEngine({.n_ctx = 100})->options().chunk_tokens, 100u);
}

TEST(Engine, OptionsOutOfRangeAreNamed) {
  const std::pair<EngineOptions, const char*> cases[] = {
      {{.n_ctx = size_t{1} << 31}, "n_ctx is 2147483648, expected 1 to 16777216"},
      {{.max_sessions = 0}, "max_sessions is 0"},
      {{.chunk_tokens = 0}, "chunk_tokens is 0"},
      {{.page_tokens = 0}, "page_tokens is 0"},
      {{.page_tokens = 100}, "page_tokens is 100, expected a multiple of 64"},
      {{.threads = 1u << 20}, "threads is 1048576"}};
  for (const auto& [options, message] : cases) {
    const auto engine = Engine::Create(MakeFakeModel(nullptr), options);
    ASSERT_FALSE(engine.ok()) << message;
    EXPECT_EQ(engine.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(engine.status().ToString(), HasSubstr(message));
  }
}

// Pages and slots of all sessions together are counted in 64 bits: here they are 2^34 and 2^40.
TEST(Engine, SessionsAndContextsThatNoMachineHoldsAreRefused) {
  const auto engine =
      Engine::Create(MakeFakeModel(nullptr), {.n_ctx = size_t{1} << 24, .max_sessions = 65536, .page_tokens = 64});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.status().code(), sizeof(size_t) == 4 ? Code::kOutOfMemory : Code::kInvalidArgument)
      << engine.status().ToString();
}

TEST(Engine, NoContextIsLongerThanLearnedPositions) {
  const auto create = [](size_t n_ctx, size_t default_ctx) {
    LoadedModel model = MakeFakeModel(nullptr, 1024);
    model.facts.n_positions = 1024;
    return Engine::Create(std::move(model), {.n_ctx = n_ctx, .default_ctx = default_ctx});
  };
  EXPECT_EQ(create(0, 4096).value()->options().n_ctx, 1024u);
  EXPECT_EQ(create(0, 512).value()->options().n_ctx, 512u);
  EXPECT_TRUE(create(1024, 1).ok());
  const auto engine = create(1025, 4096);
  EXPECT_EQ(engine.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(engine.status().ToString(), HasSubstr("1025 tokens"));
  EXPECT_THAT(engine.status().ToString(), HasSubstr("1024 positions"));
}

TEST(Engine, APlanThatCannotBeMadeIsTheResult) {
  LoadedModel model = MakeFakeModel(nullptr);
  model.make_plan = [](const PlanOptions&) -> Result<std::unique_ptr<Plan>> {
    return Status(Code::kCorrupt, "tensor x is cut");
  };
  const auto engine = Engine::Create(std::move(model), {.threads = 1});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.status().code(), Code::kCorrupt);
}

TEST(Engine, AnEncoderTakesItsTextAtOnceAndSharesNothing) {
  FakePlan* plan = nullptr;
  LoadedModel model = MakeFakeModel(&plan);
  model.make_plan = [make = std::move(model.make_plan), &plan](const PlanOptions& options) {
    auto made = make(options);
    plan->encoder = true;
    return made;
  };
  const auto made = Engine::Create(std::move(model), {.threads = 1, .max_sessions = 2, .chunk_tokens = 130});
  ASSERT_TRUE(made.ok());
  Engine& engine = **made;
  EXPECT_FALSE(engine.options().share_prefixes);
  const auto session = NewSession(engine), other = NewSession(engine);
  ASSERT_TRUE(engine.Prefill(*session, Ids(130), Outputs::kNone, nullptr).ok());
  EXPECT_EQ(plan->runs, 1u);
  size_t reused = 1;
  ASSERT_TRUE(engine.Prefill(*other, Ids(130), Outputs::kNone, nullptr, nullptr, {}, &reused).ok());
  EXPECT_EQ(reused, 0u);
  const Status more = engine.Prefill(*session, Ids(1), Outputs::kNone, nullptr);
  EXPECT_EQ(more.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(more.message()), HasSubstr("encoder"));
  ASSERT_TRUE(session->Truncate(0).ok());
  EXPECT_THAT(engine.Prefill(*session, Ids(131), Outputs::kNone, nullptr).ToString(), HasSubstr("at most 130 tokens"));
  EXPECT_EQ(session->length(), 0);
}

TEST(Engine, PrefillGivesTheSameLogitsInChunksOfAnySize) {
  const auto ids = Ids(200);
  for (size_t chunk : {1, 7, 64, 128, 200, 512}) {
    for (size_t page : {64, 128, 256}) {
      const auto engine = MakeFakeEngine({.chunk_tokens = chunk, .page_tokens = page});
      const auto session = NewSession(*engine);
      RowsConsumer all;
      std::vector<size_t> progress;
      ASSERT_TRUE(
          engine->Prefill(*session, ids, Outputs::kAll, &all, nullptr, [&](size_t done) { progress.push_back(done); })
              .ok());
      ASSERT_EQ(all.values.size(), 200u);
      for (size_t i = 0; i < 200; ++i) {
        ASSERT_EQ(all.keys[i], std::make_pair(size_t{0}, i));
        ASSERT_EQ(all.values[i], FakeLogits(std::span(ids).first(i + 1))) << "chunk " << chunk << " token " << i;
      }
      EXPECT_EQ(session->length(), 200);
      EXPECT_EQ(progress.size(), (200 + engine->options().chunk_tokens - 1) / engine->options().chunk_tokens);
      EXPECT_EQ(progress.back(), 200u);

      ASSERT_TRUE(session->Truncate(150).ok());
      RowsConsumer last;
      ASSERT_TRUE(engine->Prefill(*session, std::span(ids).subspan(150), Outputs::kLast, &last).ok());
      ASSERT_EQ(last.values.size(), 1u);
      EXPECT_EQ(last.keys[0], std::make_pair(size_t{0}, size_t{49}));
      EXPECT_EQ(last.values[0], all.values[199]);
    }
  }
}

TEST(Engine, SessionsInOneStepDoNotMeet) {
  const auto engine = MakeFakeEngine({.max_sessions = 3});
  const auto a = NewSession(*engine), b = NewSession(*engine), c = NewSession(*engine);
  const auto ids_a = Ids(70, 2), ids_b = Ids(1, 3), ids_c = Ids(5, 4);
  RowsConsumer rows;
  const SessionSpan spans[] = {
      {a.get(), ids_a, Outputs::kLast}, {b.get(), ids_b, Outputs::kNone}, {c.get(), ids_c, Outputs::kAll}};
  ASSERT_TRUE(engine->Step(spans, &rows).ok());
  ASSERT_EQ(rows.values.size(), 6u);
  EXPECT_EQ(rows.keys[0], std::make_pair(size_t{0}, size_t{69}));
  EXPECT_EQ(rows.values[0], FakeLogits(ids_a));
  EXPECT_EQ(rows.keys[5], std::make_pair(size_t{2}, size_t{4}));
  EXPECT_EQ(rows.values[5], FakeLogits(ids_c));
  EXPECT_EQ(b->length(), 1);
}

// Never cut, never one too many.
TEST(Engine, TheContextsEdge) {
  const auto engine = MakeFakeEngine({.n_ctx = 100, .max_sessions = 2});
  for (size_t n : {99, 100, 101}) {
    const auto session = NewSession(*engine);
    RowsConsumer rows;
    const Status status = engine->Prefill(*session, Ids(n), Outputs::kLast, &rows);
    if (n <= 100) {
      EXPECT_TRUE(status.ok()) << status.ToString();
      continue;
    }
    EXPECT_EQ(status.code(), Code::kExhausted);
    EXPECT_THAT(status.ToString(), HasSubstr("101 tokens are needed (0 held, 101 new), 100 are allowed"));
    EXPECT_EQ(session->length(), 0);
  }
  const auto full = NewSession(*engine), other = NewSession(*engine);
  ASSERT_TRUE(engine->Prefill(*full, Ids(100), Outputs::kNone, nullptr).ok());
  const auto one = Ids(1);
  const SessionSpan spans[] = {{other.get(), one, Outputs::kNone}, {full.get(), one, Outputs::kNone}};
  EXPECT_EQ(engine->Step(spans, nullptr).code(), Code::kExhausted);
  EXPECT_EQ(other->length(), 0);
  EXPECT_EQ(full->length(), 100);
  EXPECT_TRUE(engine->Step({spans, 1}, nullptr).ok());
}

// Pages of failed steps come back: a thousand failures exhaust nothing.
TEST(Engine, AFailedStepChangesNothing) {
  FakePlan* plan = nullptr;
  const auto engine = MakeFakeEngine({.n_ctx = 256}, &plan);
  const auto session = NewSession(*engine);
  const auto ids = Ids(100);
  ASSERT_TRUE(engine->Prefill(*session, ids, Outputs::kNone, nullptr).ok());
  plan->on_run = [](std::span<const StepSpan>) { return Status(Code::kInternal, "broken"); };
  const auto more = Ids(150, 9);
  for (int i = 0; i < 1000; ++i) {
    const SessionSpan span{session.get(), more, Outputs::kNone};
    ASSERT_EQ(engine->Step({&span, 1}, nullptr).code(), Code::kInternal);
    ASSERT_EQ(session->length(), 100);
  }
  plan->on_run = nullptr;
  RowsConsumer rows;
  ASSERT_TRUE(engine->Prefill(*session, more, Outputs::kLast, &rows).ok());
  auto all = ids;
  all.insert(all.end(), more.begin(), more.end());
  EXPECT_EQ(rows.values[0], FakeLogits(all));
}

// Cancelled in the middle of a prefill, the session is where it was, and the next call works.
TEST(Engine, ACancelledPrefillGoesBackToItsStart) {
  FakePlan* plan = nullptr;
  const auto engine = MakeFakeEngine({.chunk_tokens = 16}, &plan);
  const auto session = NewSession(*engine);
  const auto first = Ids(20), second = Ids(100, 5);
  ASSERT_TRUE(engine->Prefill(*session, first, Outputs::kNone, nullptr).ok());
  std::atomic<bool> abort{false};
  plan->on_run = [&](std::span<const StepSpan> spans) {
    if (spans[0].first_slot >= 68) abort = true;
    return Status();
  };
  EXPECT_EQ(engine->Prefill(*session, second, Outputs::kNone, nullptr, &abort).code(), Code::kCancelled);
  EXPECT_EQ(session->length(), 20);
  plan->on_run = nullptr;
  abort = false;
  RowsConsumer rows;
  ASSERT_TRUE(engine->Prefill(*session, second, Outputs::kLast, &rows, &abort).ok());
  auto all = first;
  all.insert(all.end(), second.begin(), second.end());
  EXPECT_EQ(rows.values[0], FakeLogits(all));
}

// What a consumer or a progress callback throws in the middle of a prefill passes through, and the session is where it was.
TEST(Engine, APrefillThatIsThrownOutOfGoesBackToItsStart) {
  class Throwing final : public LogitsConsumer {
   public:
    void Consume(size_t, size_t first_token, size_t, const float*, size_t) override {
      if (first_token >= 600) throw std::runtime_error("enough");
    }
  };
  for (const std::vector<size_t>& lookbacks : {std::vector<size_t>{0}, {0, 70}}) {
    for (const size_t start : {0, 20, 300}) {
      FakePlan* plan = nullptr;
      const auto engine =
          MakeFakeEngine({.n_ctx = 2000, .chunk_tokens = 16, .share_prefixes = false}, &plan, true, lookbacks);
      const auto session = NewSession(*engine);
      if (start > 0) Feed(*engine, *session, Ids(start));
      Throwing throwing;
      EXPECT_THROW(static_cast<void>(engine->Prefill(*session, Ids(1000, 5), Outputs::kAll, &throwing)),
                   std::runtime_error);
      EXPECT_EQ(session->length(), static_cast<int64_t>(start));
      const auto progress = [](size_t done) {
        if (done > 700) throw std::runtime_error("enough");
      };
      EXPECT_THROW(
          static_cast<void>(engine->Prefill(*session, Ids(1000, 5), Outputs::kNone, nullptr, nullptr, progress)),
          std::runtime_error);
      EXPECT_EQ(session->length(), static_cast<int64_t>(start));
      plan->tokens = 0;
      Feed(*engine, *session, Ids(100, 6));
      EXPECT_EQ(plan->tokens, 100u) << "nothing is read again";
    }
  }
}

// Two threads in one session would tear its state.
TEST(Engine, ASessionInUseIsBusyAndOthersMayCome) {
  FakePlan* plan = nullptr;
  const auto engine = MakeFakeEngine({.max_sessions = 2}, &plan);
  const auto session = NewSession(*engine);
  auto other = NewSession(*engine);
  const auto ids = Ids(3);
  ASSERT_TRUE(engine->Prefill(*other, ids, Outputs::kNone, nullptr).ok());
  plan->on_run = [&](std::span<const StepSpan>) {
    const SessionSpan span{session.get(), ids, Outputs::kNone};
    EXPECT_EQ(engine->Step({&span, 1}, nullptr).code(), Code::kBusy);
    EXPECT_EQ(engine->Prefill(*session, ids, Outputs::kNone, nullptr).code(), Code::kBusy);
    EXPECT_EQ(session->Truncate(0).code(), Code::kBusy);
    if (other != nullptr) {
      EXPECT_TRUE(other->Truncate(1).ok());
      other.reset();  // dies while a step of its neighbour runs
      other = NewSession(*engine);
    }
    return Status();
  };
  ASSERT_TRUE(engine->Prefill(*session, ids, Outputs::kNone, nullptr).ok());
  EXPECT_EQ(session->length(), 3);
  EXPECT_EQ(plan->runs, 2u);
  plan->on_run = nullptr;
  EXPECT_TRUE(session->Truncate(0).ok());
}

TEST(Engine, TheNumberOfSessionsIsLimited) {
  const auto engine = MakeFakeEngine({.max_sessions = 2});
  auto a = NewSession(*engine);
  const auto b = NewSession(*engine);
  const auto c = engine->NewSession();
  ASSERT_FALSE(c.ok());
  EXPECT_EQ(c.status().code(), Code::kExhausted);
  EXPECT_THAT(c.status().ToString(), HasSubstr("2 sessions"));
  a.reset();
  EXPECT_TRUE(engine->NewSession().ok());
}

TEST(Engine, WrongCallsAreNamed) {
  const auto engine = MakeFakeEngine({.max_sessions = 2, .chunk_tokens = 50});
  const auto session = NewSession(*engine), other = NewSession(*engine);
  const auto expect = [&](std::vector<SessionSpan> spans, const char* message) {
    const Status status = engine->Step(spans, nullptr);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.ToString(), HasSubstr(message));
  };
  const std::vector<int32_t> good = {5}, negative = {5, -1}, beyond = {static_cast<int32_t>(kFakeVocab)},
                             many = Ids(26);
  expect({}, "no session");
  expect({{session.get(), {}, Outputs::kNone}}, "span 0 has no tokens");
  expect({{session.get(), negative, Outputs::kNone}}, "token 1 is -1, expected 0 to 270");
  expect({{session.get(), beyond, Outputs::kNone}}, "token 0 is 271");
  expect({{session.get(), good, Outputs::kLast}}, "nobody takes them");
  expect({{session.get(), good, Outputs::kNone}, {session.get(), good, Outputs::kNone}},
         "spans 0 and 1 are of one session");
  expect({{session.get(), many, Outputs::kNone}, {other.get(), many, Outputs::kNone}},
         "52 tokens, expected at most 50");
  EXPECT_EQ(engine->Prefill(*session, {}, Outputs::kNone, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(session->Truncate(1).code(), Code::kInvalidArgument);
  EXPECT_EQ(session->Truncate(-1).code(), Code::kInvalidArgument);
  EXPECT_EQ(session->length(), 0);
}

// Run under the thread sanitizer too.
TEST(Engine, ThreadsWithSessionsOfTheirOwn) {
  const auto engine = MakeFakeEngine({.max_sessions = 4, .chunk_tokens = 16});
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        const auto session = NewSession(*engine);
        const auto ids = Ids(90, 100 + t);
        RowsConsumer rows;
        ASSERT_TRUE(engine->Prefill(*session, ids, Outputs::kLast, &rows).ok());
        ASSERT_EQ(rows.values[0], FakeLogits(ids));
        ASSERT_TRUE(session->Truncate(t).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class EnvironmentVariant {
 public:
  explicit EnvironmentVariant(const char* value) {
    if (const char* old = getenv("MOONLIT_VARIANT")) old_ = old;
    setenv("MOONLIT_VARIANT", value, 1);
  }
  ~EnvironmentVariant() { old_.empty() ? unsetenv("MOONLIT_VARIANT") : setenv("MOONLIT_VARIANT", old_.c_str(), 1); }

 private:
  std::string old_;
};

TEST(ResolveVariant, NameThenEnvironmentThenBest) {
  size_t count = 0;
  const Variant* built = BuiltVariants(&count);
  const Variant last = built[count - 1];
  ASSERT_TRUE(CanRun(last, CpuFeatures()));
  {
    const EnvironmentVariant environment("");
    EXPECT_EQ(ResolveVariant("").value(), SelectVariant(CpuFeatures()));
    EXPECT_EQ(ResolveVariant(VariantName(last)).value(), last);
  }
  const EnvironmentVariant environment(VariantName(last));
  EXPECT_EQ(ResolveVariant("").value(), last);
  const Variant best = SelectVariant(CpuFeatures());
  EXPECT_EQ(ResolveVariant(VariantName(best)).value(), best) << "a name given outright wins";
}

TEST(ResolveVariant, UnknownAndUnsupportedAreErrors) {
  const EnvironmentVariant environment("x86_avx9000");
  const auto unknown = ResolveVariant("");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(unknown.status().ToString(), HasSubstr("x86_avx9000"));
  EXPECT_THAT(unknown.status().ToString(), HasSubstr(VariantName(SelectVariant(CpuFeatures()))))
      << "says what can be had";
  size_t count = 0;
  const Variant* all = AllVariants(&count);
  for (size_t i = 0; i < count; ++i) {
    const auto result = ResolveVariant(VariantName(all[i]));
    EXPECT_EQ(result.ok(), IsBuilt(all[i]) && CanRun(all[i], CpuFeatures())) << VariantName(all[i]);
    EXPECT_EQ(result.status().code(), result.ok() ? Code::kOk : Code::kUnsupported);
  }
}

}  // namespace
}  // namespace moonlit
