// SPDX-License-Identifier: Apache-2.0
// How soon work ends that is cancelled, counted in tiles and not by a clock: a pool looks on.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/api/load.h"
#include "runtime/api/moonlit.h"
#include "runtime/decode/engine.h"

namespace moonlit {
namespace {

constexpr size_t kThreads = 3;

// Hands everything to a pool of ours and counts.
class WatchedPool final : public ThreadPool {
 public:
  WatchedPool() {
    auto pool = ThreadPool::Create({.threads = kThreads});
    EXPECT_TRUE(pool.ok()) << pool.status().ToString();
    pool_ = std::move(pool).value();
  }
  size_t threads() const override { return kThreads; }

  Status Run(std::span<const Stage> stages, AbortFlags abort) override {
    if (before_run) before_run();
    begun_ = after_flag_ = 0;
    contexts_.clear();
    watched_.clear();
    for (const Stage& stage : stages) contexts_.push_back({this, stage});
    for (Context& context : contexts_) watched_.push_back({context.stage.tasks, &RunTile, &context});
    const Status status = pool_->Run(watched_, abort);
    tiles = begun_;
    tiles_after_flag = after_flag_;
    return status;
  }

  std::function<void()> before_run;
  // At the beginning of this tile (from 0) of a run the flag is set.
  size_t set_at = SIZE_MAX;
  std::atomic<bool>* flag = nullptr;
  // Of the last run: tiles, and those that began when the flag was set.
  size_t tiles = 0, tiles_after_flag = 0;

 private:
  struct Context {
    WatchedPool* pool;
    Stage stage;
  };
  static void RunTile(void* opaque, size_t task, size_t thread) {
    const Context& context = *static_cast<const Context*>(opaque);
    WatchedPool& pool = *context.pool;
    if (pool.flag != nullptr && pool.flag->load()) ++pool.after_flag_;
    if (pool.begun_++ == pool.set_at) pool.flag->store(true);
    context.stage.run(context.stage.context, task, thread);
  }
  std::unique_ptr<ThreadPool> pool_;
  std::deque<Context> contexts_;
  std::vector<Stage> watched_;
  std::atomic<size_t> begun_{0}, after_flag_{0};
};

class Last final : public LogitsConsumer {
 public:
  explicit Last(size_t width) : row(width) {}
  void Consume(size_t, size_t, size_t rows, const float* logits, size_t stride) override {
    row.assign(logits + (rows - 1) * stride, logits + (rows - 1) * stride + row.size());
  }
  std::vector<float> row;
};

class CancelTest : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = OpenModel("poet", {});
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EngineOptions options;
    options.n_ctx = 256;
    options.max_sessions = 3;
    options.chunk_tokens = 256;
    options.share_prefixes = false;
    options.pool = &pool_;
    auto engine = Engine::Create(std::move(loaded).value(), options);
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    engine_ = std::move(engine).value();
    for (size_t i = 0; i < 3; ++i) sessions_.push_back(engine_->NewSession().value());
    for (int32_t i = 0; i < 200; ++i) ids_.push_back(20 + i * 7 % 300);
  }
  void TearDown() override { sessions_.clear(); }

  std::atomic<bool> cancel_{false};
  WatchedPool pool_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<int32_t> ids_;
};

// Each thread may have read the flag just before it was set.
TEST_F(CancelTest, AfterTheFlagNoMoreTilesBeginThanThereAreOtherThreads) {
  ASSERT_TRUE(engine_->Prefill(*sessions_[0], ids_, Outputs::kNone, nullptr, &cancel_).ok());
  const size_t tiles = pool_.tiles;
  ASSERT_GT(tiles, 100u);
  pool_.flag = &cancel_;
  for (size_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(sessions_[0]->Truncate(0).ok());
    cancel_ = false;
    pool_.set_at = i * (tiles - 1) / 20;
    EXPECT_EQ(engine_->Prefill(*sessions_[0], ids_, Outputs::kNone, nullptr, &cancel_).code(), Code::kCancelled);
    EXPECT_GT(pool_.tiles, pool_.set_at);
    EXPECT_LE(pool_.tiles_after_flag, kThreads - 1) << "set at tile " << pool_.set_at << " of " << tiles;
    EXPECT_EQ(sessions_[0]->length(), 0);
  }
}

// The second step is shared, and one of its callers cancels; the other one loses nothing, neither as the one who leads the step nor
// as the one who rides in it.
TEST_F(CancelTest, ASharedStepEndsAsSoonForTheOneWhoCancels) {
  const std::span<const int32_t> ids(ids_.data(), 50);
  Last expected(engine_->plan().vocab_size());
  ASSERT_TRUE(engine_->Prefill(*sessions_[2], ids, Outputs::kLast, &expected).ok());
  for (const bool leads : {true, false}) {
    cancel_ = false;
    Status cancelled;
    std::vector<std::thread> threads;
    size_t runs = 0, after_flag = 0;
    Last kept(expected.row.size()), dropped(expected.row.size());
    const auto keep = [&] { EXPECT_TRUE(engine_->Prefill(*sessions_[0], ids, Outputs::kLast, &kept).ok()); };
    const auto drop = [&] { cancelled = engine_->Prefill(*sessions_[1], ids, Outputs::kLast, &dropped, &cancel_); };
    pool_.flag = &cancel_;
    pool_.before_run = [&] {
      const size_t run = runs++;
      if (run == 2) after_flag = pool_.tiles_after_flag;
      pool_.set_at = run == 1 ? 20 : SIZE_MAX;
      if (run != 0) return;
      for (size_t i = 0; i < 2; ++i) {
        (i == 0) == leads ? threads.emplace_back(drop) : threads.emplace_back(keep);
        while (engine_->waiting_calls() != i + 1) std::this_thread::yield();
      }
    };
    ASSERT_TRUE(sessions_[2]->Truncate(0).ok());
    ASSERT_TRUE(engine_->Prefill(*sessions_[2], ids.first(1), Outputs::kNone, nullptr).ok());
    engine_->Leave();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(runs, 3u);
    EXPECT_EQ(cancelled.code(), Code::kCancelled);
    EXPECT_EQ(sessions_[1]->length(), 0);
    EXPECT_LE(after_flag, kThreads - 1);
    EXPECT_EQ(kept.row, expected.row);
    ASSERT_TRUE(sessions_[0]->Truncate(0).ok());
    pool_.before_run = nullptr;
    pool_.flag = nullptr;
  }
}

// As another thread cancels while a truncate reads a text again, whose pages a model with windows has given back. The loop of the
// application is where both meet.
TEST(CancelTruncate, EndsAndLeavesTheSessionShorter) {
  struct Loop {
    moonlit_session* cancelled = nullptr;
    size_t calls = 0;
  } loop;
  moonlit_model_options options;
  moonlit_model_options_init(&options, sizeof options);
  options.n_ctx = 4096;
  options.threads = 2;
  options.share_prefixes = 0;
  options.parallel_user = &loop;
  options.parallel_for = [](void* user, size_t count, void (*task)(void* data, size_t index), void* data) {
    Loop& self = *static_cast<Loop*>(user);
    ++self.calls;
    if (self.cancelled != nullptr) std::thread([&self] { moonlit_session_cancel(self.cancelled); }).join();
    for (size_t i = 0; i < count; ++i) task(data, i);
  };
  moonlit_error error = {};
  moonlit_model* model = nullptr;
  moonlit_session* session = nullptr;
  ASSERT_EQ(moonlit_model_load(MOONLIT_SOURCE_DIR "/tests/data/golden/gemma3/model.gguf", &options, &model, &error),
            MOONLIT_OK)
      << error.message;
  ASSERT_EQ(moonlit_session_new(model, &session, &error), MOONLIT_OK);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 2000; ++i) ids.push_back(20 + i * 7 % 300);
  ASSERT_EQ(moonlit_eval(session, ids.data(), ids.size(), MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error), MOONLIT_OK)
      << error.message;
  loop.cancelled = session;
  loop.calls = 0;
  EXPECT_EQ(moonlit_session_truncate(session, 200, &error), MOONLIT_CANCELLED) << error.message;
  EXPECT_EQ(loop.calls, 1u) << "no other stage begins";
  EXPECT_LT(moonlit_session_length(session), 200u);
  loop.cancelled = nullptr;
  EXPECT_EQ(moonlit_eval(session, ids.data(), 10, MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error), MOONLIT_OK)
      << error.message;
  moonlit_session_free(session);
  moonlit_model_free(model);
}

}  // namespace
}  // namespace moonlit
