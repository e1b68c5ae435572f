// SPDX-License-Identifier: Apache-2.0
// The one place where big memory comes from: what is sized by a model (weights, cache, states, intermediates), from the system or from
// an application's allocator. Small bookkeeping stays with new and malloc.
//
//   MOONLIT_ASSIGN_OR_RETURN(void* memory, AllocateBig(allocator, bytes, "the packed weights"));
//   ReleaseBig(allocator, memory, bytes);
//
// Buffer (runtime/tensor/buffer.h) owns such memory.
#pragma once

#include <cstddef>

#include "runtime/base/status.h"

namespace moonlit {

// An application's allocator; without functions, the system. Plain pointers, copied into whatever must release later. Both functions
// may be called from any thread, several at once.
struct Allocator {
  // At least `bytes` (above 0) with any contents, aligned to `alignment` (BigAlignment); null: there are none.
  void* (*allocate)(void* user, size_t bytes, size_t alignment) = nullptr;
  void (*release)(void* user, void* memory, size_t bytes) = nullptr;  // with the bytes that were asked for
  void* user = nullptr;
};

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// 64 (a cache line, and the widest vector), and from 2 MiB up 2 MiB, so that the system can use huge pages.
constexpr size_t BigAlignment(size_t bytes) { return bytes < kHugePageBytes ? 64 : kHugePageBytes; }

// Zeroed. What the system gives from 2 MiB up is advised MADV_HUGEPAGE and untouched until first written. REQUIRES: bytes > 0.
// kOutOfMemory names `what` and the size; kInvalidArgument: the application's memory is not even aligned to 64.
Result<void*> AllocateBig(const Allocator& allocator, size_t bytes, const char* what);
// REQUIRES: memory of this allocator, and the bytes that were asked for.
void ReleaseBig(const Allocator& allocator, void* memory, size_t bytes);

// Gives the pages of freed small blocks back to the system, for C libraries that keep them (glibc); for after work that made and
// freed very many, such as reading a vocabulary. Any thread, at any time.
void ReturnFreedMemory();

}  // namespace moonlit
