// SPDX-License-Identifier: Apache-2.0
// What the tasks of one load share: how far it is, and the first fault, which ends it.
#pragma once

#include <atomic>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "runtime/base/status.h"

namespace moonlit {

// Any thread may call Fail and Add. `report` as PlanOptions::progress, and may be null or empty; it outlives this.
class LoadProgress {
 public:
  LoadProgress(const std::function<bool(uint64_t, uint64_t)>* report, uint64_t total)
      : report_(report), total_(total) {}

  // The first fault counts; tasks that have not begun are left out.
  void Fail(Status fault) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = std::move(fault);
    stop_.store(true);
  }

  // The same where there is no memory for a Status.
  void FailForMemory() noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = std::move(no_memory_);
    stop_.store(true);
  }

  // `bytes` more are done. Thread 0 is the loading thread: it reports, and may cancel.
  void Add(uint64_t bytes, size_t thread) {
    const uint64_t done = done_.fetch_add(bytes) + bytes;
    if (thread != 0 || report_ == nullptr || !*report_ || (*report_)(done, total_)) return;
    Fail(Errorf(Code::kCancelled, "loading was cancelled after %" PRIu64 " bytes", done));
  }

  const std::atomic<bool>* stop() const { return &stop_; }  // for ThreadPool::Run
  // After the run: the fault, or what the run itself says.
  Status Finish(Status ran) { return status_.ok() ? ran : status_; }

 private:
  const std::function<bool(uint64_t, uint64_t)>* report_;
  uint64_t total_;
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  Status status_;
  Status no_memory_{Code::kOutOfMemory, "not enough memory to read a tensor"};
};

}  // namespace moonlit
