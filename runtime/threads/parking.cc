// SPDX-License-Identifier: Apache-2.0
#include "runtime/threads/parking.h"

#include <climits>
#include <thread>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace moonlit {
namespace {

// With more threads than CPUs the one waited for may need this very core.
constexpr size_t kYields = 4;

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#endif
}

#ifdef __linux__
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a futex is a plain 32-bit word");

// The kernel compares the word with `old` once more before it puts the thread to sleep; spurious returns are allowed.
void Sleep(const std::atomic<uint32_t>& word, uint32_t old) {
  syscall(SYS_futex, reinterpret_cast<const uint32_t*>(&word), FUTEX_WAIT_PRIVATE, old, nullptr, nullptr, 0);
}
void WakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}
#else
void Sleep(const std::atomic<uint32_t>& word, uint32_t old) { word.wait(old); }
void WakeAll(std::atomic<uint32_t>& word) { word.notify_all(); }
#endif

}  // namespace

uint32_t Parking::WaitWhile(const std::atomic<uint32_t>& word, uint32_t old) {
  uint32_t value;
  for (size_t i = 0; i < spin_; ++i) {
    if ((value = word.load(std::memory_order_acquire)) != old) return value;
    Pause();
  }
  for (size_t i = 0; i < kYields; ++i) {
    if ((value = word.load(std::memory_order_acquire)) != old) return value;
    std::this_thread::yield();
  }
  // Announce, then look again: with Set's order (change, then look for sleepers) one of the two sees the other. All
  // four accesses are sequentially consistent for that.
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while ((value = word.load(std::memory_order_seq_cst)) == old) Sleep(word, old);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return value;
}

void Parking::Set(std::atomic<uint32_t>& word, uint32_t value) {
  word.exchange(value, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) WakeAll(word);
}

}  // namespace moonlit
