// SPDX-License-Identifier: Apache-2.0
// Whose turn it is with an object that one call at a time may use, and whether that call is to end.
#pragma once

#include <atomic>
#include <thread>

namespace moonlit::api {

// Nothing is locked, so a signal handler may cancel.
class Turn {
 public:
  // False: another call has it. What is cancelled from then on is that call: nothing that it does later takes the cancelling back.
  bool Begin() {
    State free = kFree;
    if (state_.compare_exchange_strong(free, kBeginning, std::memory_order_acquire)) {
      cancelled_.store(false);
      state_.store(kTaken, std::memory_order_release);
      return true;
    }
    while (state_.load(std::memory_order_acquire) == kBeginning) std::this_thread::yield();
    return false;
  }
  void End() { state_.store(kFree, std::memory_order_release); }

  void Cancel() { cancelled_.store(true); }
  // For what works for the call, which may cancel it, too.
  std::atomic<bool>* cancelled() { return &cancelled_; }

 private:
  enum State { kFree, kBeginning, kTaken };
  std::atomic<State> state_{kFree};
  std::atomic<bool> cancelled_{false};
};

}  // namespace moonlit::api
