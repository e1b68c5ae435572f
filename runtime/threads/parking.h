// SPDX-License-Identifier: Apache-2.0
// Waiting for a word to change: spin for a while, then give the core away, then sleep in the kernel (futex) until
// woken.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace moonlit {

// One instance serves any number of words and waiters. Thread safe.
class Parking {
 public:
  // `spin`: pauses before the thread sleeps.
  explicit Parking(size_t spin) : spin_(spin) {}

  // Returns the word when it no longer holds `old`; what was written before the change is then visible.
  uint32_t WaitWhile(const std::atomic<uint32_t>& word, uint32_t old);

  // Sets the word and wakes everybody who waits for it to change. No system call when nobody sleeps.
  void Set(std::atomic<uint32_t>& word, uint32_t value);

 private:
  const size_t spin_;
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace moonlit
