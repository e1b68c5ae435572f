// SPDX-License-Identifier: Apache-2.0
#include "tests/support/failing_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace moonlit {
namespace {

std::atomic<int64_t> live{0};
std::atomic<bool> armed{false}, for_good{false}, failed{false};
std::atomic<int64_t> left{0};  // calls until one fails

bool Fails() {
  if (!armed.load()) return false;
  const int64_t before = left.fetch_sub(1);
  if (before > 1 || (before < 1 && !for_good.load())) return false;
  failed.store(true);
  return true;
}

void* Allocate(size_t size, size_t alignment) noexcept {
  if (Fails()) return nullptr;
  const size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* block = alignment <= alignof(std::max_align_t)
                    ? std::malloc(size == 0 ? 1 : size)
                    : std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (block != nullptr) ++live;
  return block;
}

void* AllocateOrThrow(size_t size, size_t alignment) {
  void* block = Allocate(size, alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void Free(void* block) noexcept {
  if (block == nullptr) return;
  --live;
  std::free(block);
}

constexpr size_t kPlain = alignof(std::max_align_t);

}  // namespace

void ArmNew(size_t n, Failing failing) {
  failed.store(false);
  for_good.store(failing == Failing::kForGood);
  left.store(static_cast<int64_t>(n));
  armed.store(true);
}

bool DisarmNew() {
  armed.store(false);
  return failed.load();
}

int64_t LiveBlocks() { return live.load(); }

}  // namespace moonlit

void* operator new(size_t size) { return moonlit::AllocateOrThrow(size, moonlit::kPlain); }
void* operator new[](size_t size) { return moonlit::AllocateOrThrow(size, moonlit::kPlain); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return moonlit::Allocate(size, moonlit::kPlain); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return moonlit::Allocate(size, moonlit::kPlain); }
void* operator new(size_t size, std::align_val_t alignment) {
  return moonlit::AllocateOrThrow(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return moonlit::AllocateOrThrow(size, static_cast<size_t>(alignment));
}
void operator delete(void* block) noexcept { moonlit::Free(block); }
void operator delete[](void* block) noexcept { moonlit::Free(block); }
void operator delete(void* block, size_t) noexcept { moonlit::Free(block); }
void operator delete[](void* block, size_t) noexcept { moonlit::Free(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { moonlit::Free(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { moonlit::Free(block); }
void operator delete(void* block, std::align_val_t) noexcept { moonlit::Free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { moonlit::Free(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { moonlit::Free(block); }
void operator delete[](void* block, size_t, std::align_val_t) noexcept { moonlit::Free(block); }
