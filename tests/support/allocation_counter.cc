// SPDX-License-Identifier: Apache-2.0
#include "tests/support/allocation_counter.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace moonlit {
namespace {

std::atomic<int64_t> live{0};
std::atomic<int64_t> peak{0};
std::atomic<size_t> count{0};

// The size is kept before the block; 16 bytes keep what malloc promises about alignment.
constexpr size_t kPrefix = 16;

void* Allocate(size_t size) {
  if (size > SIZE_MAX - kPrefix) throw std::bad_alloc();
  void* block = std::malloc(size + kPrefix);
  if (block == nullptr) throw std::bad_alloc();
  *static_cast<size_t*>(block) = size;
  const int64_t now = live.fetch_add(static_cast<int64_t>(size)) + static_cast<int64_t>(size);
  int64_t seen = peak.load();
  while (now > seen && !peak.compare_exchange_weak(seen, now)) {
  }
  ++count;
  return static_cast<char*>(block) + kPrefix;
}

void Free(void* pointer) {
  if (pointer == nullptr) return;
  void* block = static_cast<char*>(pointer) - kPrefix;
  live.fetch_sub(static_cast<int64_t>(*static_cast<size_t*>(block)));
  std::free(block);
}

}  // namespace

void ResetAllocations() {
  live = 0;
  peak = 0;
  count = 0;
}

size_t PeakAllocatedBytes() { return static_cast<size_t>(peak.load()); }
size_t AllocationCount() { return count.load(); }

}  // namespace moonlit

void* operator new(size_t size) { return moonlit::Allocate(size); }
void* operator new[](size_t size) { return moonlit::Allocate(size); }
// The library's nothrow forms call the above, a sanitizer's do not, and what they give must not come to Free.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return moonlit::Allocate(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](size_t size, const std::nothrow_t& tag) noexcept { return operator new(size, tag); }
void operator delete(void* pointer) noexcept { moonlit::Free(pointer); }
void operator delete[](void* pointer) noexcept { moonlit::Free(pointer); }
void operator delete(void* pointer, size_t) noexcept { moonlit::Free(pointer); }
void operator delete[](void* pointer, size_t) noexcept { moonlit::Free(pointer); }
