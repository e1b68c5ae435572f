// SPDX-License-Identifier: Apache-2.0
// A line on stderr that says how far something is, for people who wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace moonlit::cli {

// Redrawn in place by a thread of its own, so that it also shows while a long step says nothing. Silent until 300 ms have passed, and
// when stderr is no terminal. Whoever prints something else ends the line first.
class ProgressLine {
 public:
  explicit ProgressLine(const char* what);
  ~ProgressLine();  // clears the line
  void Update(uint64_t done, uint64_t total);

 private:
  void DrawUntilEnded();
  void Draw() const;

  const char* const what_;
  const double started_;
  std::atomic<double> share_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;  // guarded by mutex_
  std::thread thread_;  // none when stderr is no terminal
};

}  // namespace moonlit::cli
