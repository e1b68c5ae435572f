// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "kernels/base/round.h"

namespace moonlit {
namespace {

constexpr size_t kLeastAlignment = 64;

void* Map(size_t bytes) {
  // Over-reserve by one huge page and give the unaligned ends back, so that the kernel can use 2 MiB pages throughout.
  const size_t size = RoundUp(bytes, kHugePageBytes);
  void* memory = mmap(nullptr, size + kHugePageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t aligned = RoundUp(begin, kHugePageBytes);
  if (aligned > begin) munmap(memory, aligned - begin);
  if (aligned + size < begin + size + kHugePageBytes) {
    munmap(reinterpret_cast<void*>(aligned + size), begin + kHugePageBytes - aligned);
  }
  memory = reinterpret_cast<void*>(aligned);
#ifdef MADV_HUGEPAGE
  madvise(memory, size, MADV_HUGEPAGE);
#endif
  return memory;
}

void* AllocateFromSystem(size_t bytes) {
  if (bytes >= kHugePageBytes) return Map(bytes);
  void* memory = std::aligned_alloc(kLeastAlignment, RoundUp(bytes, kLeastAlignment));
  if (memory != nullptr) std::memset(memory, 0, bytes);
  return memory;
}

Result<void*> AllocateFromApplication(const Allocator& allocator, size_t bytes, const char* what) {
  void* memory = allocator.allocate(allocator.user, bytes, BigAlignment(bytes));
  if (memory == nullptr) {
    return Errorf(Code::kOutOfMemory, "%s needs %zu bytes, which the application's allocator does not give", what,
                  bytes);
  }
  if (reinterpret_cast<uintptr_t>(memory) % kLeastAlignment != 0) {
    allocator.release(allocator.user, memory, bytes);
    return Errorf(Code::kInvalidArgument,
                  "%s: the application's allocator gave an address that is no multiple of %zu, asked for %zu", what,
                  kLeastAlignment, BigAlignment(bytes));
  }
  std::memset(memory, 0, bytes);
  return memory;
}

}  // namespace

Result<void*> AllocateBig(const Allocator& allocator, size_t bytes, const char* what) {
  if (bytes <= SIZE_MAX / 2) {
    if (allocator.allocate != nullptr) return AllocateFromApplication(allocator, bytes, what);
    if (void* memory = AllocateFromSystem(bytes)) return memory;
  }
  return Errorf(Code::kOutOfMemory, "%s needs %zu bytes, which the system does not give", what, bytes);
}

void ReleaseBig(const Allocator& allocator, void* memory, size_t bytes) {
  if (allocator.allocate != nullptr) return allocator.release(allocator.user, memory, bytes);
  if (bytes < kHugePageBytes) return std::free(memory);
  munmap(memory, RoundUp(bytes, kHugePageBytes));
}

void ReturnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace moonlit
