// SPDX-License-Identifier: Apache-2.0
// The one thread pool, of threads of our own or of an application's. A step of the engine is a list of stages; a stage is a
// parallel loop over tasks that threads claim dynamically (a slow core takes fewer), and a barrier ends it.
//
//   auto pool = ThreadPool::Create({.threads = 0});  // 0: the default for this machine (topology.h)
//   Stage stages[] = {{tasks, &RunTile, &context}};
//   Status status = pool->Run(stages, &abort_flag);
//
// The calling thread is thread 0 and works too; all threads walk the stage list together, so a stage costs a barrier
// and not a wake-up. Waiting spins for a bounded time, then parks (futex), so an idle pool uses no CPU and a pool with
// more threads than usable CPUs still makes progress. A stage of one task runs without the other threads touching its
// data.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "runtime/base/status.h"

namespace moonlit {

// An application's parallel loop: calls task(data, index) for the indices below `count`, on threads of its choice, and returns when the
// calls that it began have ended. It may make fewer calls, or all of them one after another.
struct ParallelFor {
  void (*run)(void* user, size_t count, void (*task)(void* data, size_t index), void* data) = nullptr;
  void* user = nullptr;
};

struct ThreadPoolOptions {
  size_t threads = 0;          // including the caller; 0: DefaultThreadCount()
  size_t spin_iterations = 0;  // pauses before parking; 0: the default
  // With a function, the pool creates no thread: every stage of several tasks is one call of the loop with at most `threads`
  // indices. An index goes on claiming tasks while there are any, and the caller does what is left, so that no index waits for
  // another one.
  ParallelFor loop = {};
};

struct Stage {
  size_t tasks;                                            // may be 0
  void (*run)(void* context, size_t task, size_t thread);  // thread: 0 .. threads() - 1; must not throw
  void* context;
};

// Flags that end a run early: it ends when one of them is set, which any thread may do. They are the caller's and live until the
// run is over.
class AbortFlags {
 public:
  AbortFlags(const std::atomic<bool>* flag = nullptr) : one_(flag) {}  // NOLINT: implicit on purpose. Null: none
  AbortFlags(std::span<const std::atomic<bool>* const> flags) : more_(flags) {}  // NOLINT: likewise. None of them null
  bool AnySet() const {
    if (one_ != nullptr && one_->load(std::memory_order_relaxed)) return true;
    for (const std::atomic<bool>* flag : more_) {
      if (flag->load(std::memory_order_relaxed)) return true;
    }
    return false;
  }
  bool empty() const { return one_ == nullptr && more_.empty(); }
  // Calls `body` with each.
  template <typename Body>
  void ForEach(const Body& body) const {
    if (one_ != nullptr) body(one_);
    for (const std::atomic<bool>* flag : more_) body(flag);
  }

 private:
  const std::atomic<bool>* one_ = nullptr;
  std::span<const std::atomic<bool>* const> more_;
};

class ThreadPool {
 public:
  static Result<std::unique_ptr<ThreadPool>> Create(const ThreadPoolOptions& options);
  virtual ~ThreadPool() = default;
  virtual size_t threads() const = 0;
  // Runs the stages in order. When a flag of `abort` is set, no further task is claimed, and the result is kCancelled. Calls from
  // several threads are serialised. REQUIRES: not called from inside a task.
  virtual Status Run(std::span<const Stage> stages, AbortFlags abort = {}) = 0;
};

}  // namespace moonlit
