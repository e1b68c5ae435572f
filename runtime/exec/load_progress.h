// SPDX-License-Identifier: Apache-2.0
// What the tasks of one load share: how far it is, and the first fault, which ends it.
#pragma once

#include <atomic>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <exception>
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
    if (thread == 0) Report(done);
  }

  const std::atomic<bool>* stop() const { return &stop_; }  // for ThreadPool::Run
  // On the loading thread, after the run: the fault, or what the run itself says. Other threads may have done the last
  // pieces, or all of a small model: whoever asked for reports hears of the end all the same. Throws what a report has thrown.
  Status Finish(Status ran) {
    if (status_.ok() && ran.ok() && reported_ != total_) Report(total_);
    if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
    return status_.ok() ? ran : status_;
  }

 private:
  // An exception must not pass the pool, whose other threads still write to what an unwinding load would free: it waits for Finish.
  void Report(uint64_t done) {
    if (thrown_ != nullptr) return;
    reported_ = done;
    try {
      if (report_ == nullptr || !*report_ || (*report_)(done, total_)) return;
    } catch (...) {
      thrown_ = std::current_exception();
      stop_.store(true);
      return;
    }
    Fail(Errorf(Code::kCancelled, "loading was cancelled after %" PRIu64 " bytes", done));
  }

  const std::function<bool(uint64_t, uint64_t)>* report_;
  uint64_t total_;
  std::atomic<uint64_t> done_{0};
  uint64_t reported_ = 0;      // the loading thread's
  std::exception_ptr thrown_;  // likewise
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  Status status_;
  Status no_memory_{Code::kOutOfMemory, "not enough memory to read a tensor"};
};

}  // namespace moonlit
