// SPDX-License-Identifier: Apache-2.0
// A pool of an application's threads. One call of its loop is one stage: there is no barrier inside a call, so a loop that runs its
// indices one after another, or leaves some out, is slower and nothing else.
#include "runtime/threads/borrowed_pool.h"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace moonlit {
namespace {

class BorrowedPool final : public ThreadPool {
 public:
  BorrowedPool(const ParallelFor& loop, size_t threads) : loop_(loop), threads_(threads) {}

  size_t threads() const override { return threads_; }

  Status Run(std::span<const Stage> stages, AbortFlags abort) override {
    const std::lock_guard<std::mutex> lock(run_mutex_);
    abort_ = abort;
    stop_.store(false, std::memory_order_relaxed);
    for (const Stage& stage : stages) {
      if (stage.tasks != 0) RunStage(stage);
      if (stop_.load(std::memory_order_relaxed)) return Status(Code::kCancelled, "the step was cancelled");
    }
    return Status();
  }

 private:
  void RunStage(const Stage& stage) {
    stage_ = &stage;
    next_task_.store(0, std::memory_order_relaxed);
    next_thread_.store(0, std::memory_order_relaxed);
    const size_t wanted = std::min(threads_, stage.tasks);
    if (wanted > 1) loop_.run(loop_.user, wanted, &TakePart, this);
    RunTasks(0);  // the loop's calls have ended, and with them whoever was thread 0
  }

  // Numbers of threads select scratch, so they are given out here: an index that came twice would meet itself.
  static void TakePart(void* data, size_t) {
    auto& pool = *static_cast<BorrowedPool*>(data);
    const size_t thread = pool.next_thread_.fetch_add(1, std::memory_order_relaxed);
    if (thread < pool.threads_) pool.RunTasks(thread);
  }

  void RunTasks(size_t thread) {
    while (next_task_.load(std::memory_order_relaxed) < stage_->tasks && !Stopped()) {
      const size_t task = next_task_.fetch_add(1, std::memory_order_relaxed);
      if (task >= stage_->tasks) return;
      stage_->run(stage_->context, task, thread);
    }
  }

  bool Stopped() {
    if (stop_.load(std::memory_order_relaxed)) return true;
    if (!abort_.AnySet()) return false;
    stop_.store(true, std::memory_order_relaxed);
    return true;
  }

  const ParallelFor loop_;
  const size_t threads_;
  std::mutex run_mutex_;

  // Written between the calls of the loop.
  const Stage* stage_ = nullptr;
  AbortFlags abort_;

  alignas(64) std::atomic<size_t> next_task_{0};
  alignas(64) std::atomic<size_t> next_thread_{0};
  alignas(64) std::atomic<bool> stop_{false};
};

}  // namespace

std::unique_ptr<ThreadPool> BorrowThreads(const ParallelFor& loop, size_t threads) {
  MOONLIT_CHECK(loop.run != nullptr && threads > 0);
  return std::make_unique<BorrowedPool>(loop, threads);
}

}  // namespace moonlit
