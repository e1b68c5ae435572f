// SPDX-License-Identifier: Apache-2.0
// The one thread pool. A step of the engine is a list of stages; a stage is a parallel loop over tasks that threads
// claim dynamically (a slow core takes fewer), and a barrier ends it.
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

struct ThreadPoolOptions {
  size_t threads = 0;          // including the caller; 0: DefaultThreadCount()
  size_t spin_iterations = 0;  // pauses before parking; 0: the default
};

struct Stage {
  size_t tasks;                                            // may be 0
  void (*run)(void* context, size_t task, size_t thread);  // thread: 0 .. threads() - 1; must not throw
  void* context;
};

class ThreadPool {
 public:
  static Result<std::unique_ptr<ThreadPool>> Create(const ThreadPoolOptions& options);
  virtual ~ThreadPool() = default;
  virtual size_t threads() const = 0;
  // Runs the stages in order. When *abort is set, no further task is claimed, and the result is kCancelled. Calls from
  // several threads are serialised. REQUIRES: not called from inside a task.
  virtual Status Run(std::span<const Stage> stages, const std::atomic<bool>* abort = nullptr) = 0;
};

}  // namespace moonlit
