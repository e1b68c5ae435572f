// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/progress_line.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "tools/cli/model_flags.h"

namespace moonlit::cli {

using std::chrono::milliseconds;

ProgressLine::ProgressLine(const char* what) : what_(what), started_(NowSeconds()) {
  if (isatty(STDERR_FILENO) != 0) thread_ = std::thread(&ProgressLine::DrawUntilEnded, this);
}

ProgressLine::~ProgressLine() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ProgressLine::Update(uint64_t done, uint64_t total) {
  if (total != 0) share_.store(static_cast<double>(done) / static_cast<double>(total));
}

void ProgressLine::DrawUntilEnded() {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto ended = [this] { return ended_; };
  if (wake_.wait_for(lock, milliseconds(300), ended)) return;
  do {
    Draw();
  } while (!wake_.wait_for(lock, milliseconds(100), ended));
  std::fprintf(stderr, "\r\033[K");
}

void ProgressLine::Draw() const {
  const double share = share_.load(), passed = NowSeconds() - started_;
  if (share > 0) {
    std::fprintf(stderr, "\r%s %3.0f%%  %.0f s left \033[K", what_, 100 * share, passed * (1 - share) / share);
  } else {
    std::fprintf(stderr, "\r%s  %.0f s so far \033[K", what_, passed);
  }
  std::fflush(stderr);
}

}  // namespace moonlit::cli
