// SPDX-License-Identifier: Apache-2.0
#include "runtime/threads/pool.h"

#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/threads/borrowed_pool.h"
#include "runtime/threads/parking.h"
#include "runtime/threads/thread_count.h"
#include "runtime/threads/topology.h"

namespace moonlit {
namespace {

// A pause is 40 to 140 cycles, so a waiter spins for some 20 to 60 microseconds: longer than the uneven end of a stage,
// shorter than what a person or a power meter notices. With more threads than CPUs spinning only keeps others from
// working.
constexpr size_t kSpin = 2000;
constexpr size_t kSpinOversubscribed = 20;

size_t SpinIterations(const ThreadPoolOptions& options, size_t threads, size_t cpus) {
  if (options.spin_iterations != 0) return options.spin_iterations;
  return cpus != 0 && threads > cpus ? kSpinOversubscribed : kSpin;
}

class Pool final : public ThreadPool {
 public:
  Pool(size_t threads, size_t spin) : threads_(threads), parking_(spin) {}

  ~Pool() override {
    quit_ = true;
    StartWorkers();
    for (std::thread& worker : workers_) worker.join();
  }

  Status Start() {
    workers_.reserve(threads_ - 1);
    for (size_t i = 1; i < threads_; ++i) {
      try {
        workers_.emplace_back([this, i] { Work(i); });
      } catch (const std::system_error& error) {
        return Errorf(Code::kOutOfMemory,
                      "thread pool: the system refuses thread %zu of %zu (%s); ask for fewer threads", i + 1, threads_,
                      error.what());
      }
    }
    return Status();
  }

  size_t threads() const override { return threads_; }

  Status Run(std::span<const Stage> stages, AbortFlags abort) override {
    const std::lock_guard<std::mutex> lock(run_mutex_);
    while (!stages.empty() && stages.back().tasks == 0) stages = stages.first(stages.size() - 1);
    if (stages.empty()) return Status();
    stages_ = stages;
    abort_ = abort;
    stop_.store(false, std::memory_order_relaxed);
    next_task_.store(0, std::memory_order_relaxed);
    if (threads_ > 1) StartWorkers();
    WalkStages(0);
    if (stop_.load(std::memory_order_relaxed)) return Status(Code::kCancelled, "the step was cancelled");
    return Status();
  }

 private:
  void StartWorkers() { parking_.Set(epoch_, epoch_.load(std::memory_order_relaxed) + 1); }

  void Work(size_t thread) {
    uint32_t seen = 0;
    for (;;) {
      // The epoch can't change twice without this thread: the run in between waits for it at a barrier.
      seen = parking_.WaitWhile(epoch_, seen);
      if (quit_) return;
      WalkStages(thread);
    }
  }

  // Every thread passes the same barriers, because all see the same stages and each barrier's one verdict. Behind the
  // last one nothing of the run is read: the caller may be gone.
  void WalkStages(size_t thread) {
    const std::span<const Stage> stages = stages_;
    for (size_t s = 0; s < stages.size(); ++s) {
      if (stages[s].tasks == 0) continue;
      if (stages[s].tasks == 1) {
        // Thread 0 takes single tasks, so a run of them needs no barrier in between.
        if (thread == 0 && !Stopped()) stages[s].run(stages[s].context, 0, 0);
        if (NextIsSingle(stages, s)) continue;
      } else {
        RunTasks(stages[s], thread);
      }
      if (!Barrier()) return;
    }
  }

  static bool NextIsSingle(std::span<const Stage> stages, size_t s) {
    for (++s; s < stages.size(); ++s) {
      if (stages[s].tasks != 0) return stages[s].tasks == 1;
    }
    return false;
  }

  void RunTasks(const Stage& stage, size_t thread) {
    while (next_task_.load(std::memory_order_relaxed) < stage.tasks && !Stopped()) {
      const size_t task = next_task_.fetch_add(1, std::memory_order_relaxed);
      if (task >= stage.tasks) return;
      stage.run(stage.context, task, thread);
    }
  }

  // Sticky within a run, whatever the caller does with its flag meanwhile.
  bool Stopped() {
    if (stop_.load(std::memory_order_relaxed)) return true;
    if (!abort_.AnySet()) return false;
    stop_.store(true, std::memory_order_relaxed);
    return true;
  }

  // False: the run is over. The last to arrive prepares the next stage while nobody else runs, and its verdict travels
  // in the word that releases the others (bit 0), where no later run can overwrite it: the word changes once a barrier.
  bool Barrier() {
    const uint32_t old = generation_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < threads_) {
      return (parking_.WaitWhile(generation_, old) & 1) == 0;
    }
    const uint32_t stop = stop_.load(std::memory_order_relaxed) ? 1 : 0;
    arrived_.store(0, std::memory_order_relaxed);
    next_task_.store(0, std::memory_order_relaxed);
    parking_.Set(generation_, (old & ~uint32_t{1}) + 2 + stop);
    return stop == 0;
  }

  const size_t threads_;
  Parking parking_;
  std::mutex run_mutex_;
  std::vector<std::thread> workers_;

  // Written before epoch_ changes; workers read them between that and the last barrier of the run.
  std::span<const Stage> stages_;
  AbortFlags abort_;
  bool quit_ = false;

  // Each on its own cache line: claims must not disturb those who wait.
  alignas(64) std::atomic<uint32_t> epoch_{0};
  alignas(64) std::atomic<size_t> next_task_{0};
  alignas(64) std::atomic<size_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<bool> stop_{false};
};

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::Create(const ThreadPoolOptions& options) {
  MOONLIT_RETURN_IF_ERROR(CheckThreadCount(options.threads));
  const Topology topology = ReadTopology();
  const size_t threads = options.threads != 0 ? options.threads : DefaultThreadCount(topology).threads;
  if (options.loop.run != nullptr) return BorrowThreads(options.loop, threads);
  auto pool = std::make_unique<Pool>(threads, SpinIterations(options, threads, topology.cpus.size()));
  MOONLIT_RETURN_IF_ERROR(pool->Start());
  return std::unique_ptr<ThreadPool>(std::move(pool));
}

}  // namespace moonlit
