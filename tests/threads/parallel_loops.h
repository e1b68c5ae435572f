// SPDX-License-Identifier: Apache-2.0
// Parallel loops that an application may bring, good ones and odd ones.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <ostream>
#include <thread>
#include <vector>

namespace moonlit::test {

using LoopTask = void (*)(void* data, size_t index);

struct LoopKind {
  const char* name;
  void (*run)(void* user, size_t count, LoopTask task, void* data);
};
inline std::ostream& operator<<(std::ostream& out, const LoopKind& kind) { return out << kind.name; }

inline void RunSerial(void*, size_t count, LoopTask task, void* data) {
  for (size_t i = 0; i < count; ++i) task(data, i);
}
inline void RunBackwards(void*, size_t count, LoopTask task, void* data) {
  for (size_t i = count; i > 0; --i) task(data, i - 1);
}
inline void RunNothing(void*, size_t, LoopTask, void*) {}
inline void RunTheLastAlone(void*, size_t count, LoopTask task, void* data) { task(data, count - 1); }

inline void RunOnThreads(void*, size_t count, LoopTask task, void* data) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) threads.emplace_back([=] { task(data, i); });
  for (std::thread& thread : threads) thread.join();
}
// Every index by a thread that ends before the next one begins.
inline void RunOnOneThreadAfterAnother(void*, size_t count, LoopTask task, void* data) {
  for (size_t i = 0; i < count; ++i) std::thread([=] { task(data, i); }).join();
}
// All indices three times, as if they were others.
inline void RunTooMuch(void*, size_t count, LoopTask task, void* data) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3 * count; ++i) threads.emplace_back([=] { task(data, i % 2); });
  for (std::thread& thread : threads) thread.join();
}

// Two threads that live on and take indices from a queue, as a pool of an application would.
inline void RunOnAQueue(void*, size_t count, LoopTask task, void* data) {
  struct Queue {
    Queue() {
      for (int i = 0; i < 2; ++i) workers.emplace_back([this] { Work(); });
    }
    ~Queue() {
      {
        const std::lock_guard<std::mutex> lock(mutex);
        quit = true;
      }
      changed.notify_all();
      for (std::thread& worker : workers) worker.join();
    }
    void Work() {
      std::unique_lock<std::mutex> lock(mutex);
      for (;;) {
        changed.wait(lock, [this] { return quit || !jobs.empty(); });
        if (jobs.empty()) return;
        const std::function<void()> job = std::move(jobs.front());
        jobs.pop_front();
        lock.unlock();
        job();
        lock.lock();
      }
    }
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> jobs;
    bool quit = false;
    std::vector<std::thread> workers;
  };
  static Queue queue;
  std::mutex mutex;
  std::condition_variable ended;
  size_t left = count;
  for (size_t i = 0; i < count; ++i) {
    const std::lock_guard<std::mutex> lock(queue.mutex);
    queue.jobs.push_back([&, i] {
      task(data, i);
      const std::lock_guard<std::mutex> done(mutex);
      if (--left == 0) ended.notify_all();
    });
  }
  queue.changed.notify_all();
  std::unique_lock<std::mutex> lock(mutex);
  ended.wait(lock, [&] { return left == 0; });
}

inline constexpr LoopKind kLoops[] = {
    {"serial", &RunSerial},     {"backwards", &RunBackwards},
    {"nothing", &RunNothing},   {"the_last_alone", &RunTheLastAlone},
    {"threads", &RunOnThreads}, {"one_thread_after_another", &RunOnOneThreadAfterAnother},
    {"too_much", &RunTooMuch},  {"queue", &RunOnAQueue},
};

}  // namespace moonlit::test
