// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "kernels/base/round.h"

namespace moonlit {
namespace {
constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
}  // namespace

Result<Buffer> Buffer::Allocate(size_t bytes, const char* what) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  const Status out_of_memory =
      Errorf(Code::kOutOfMemory, "%s needs %zu bytes, which the system does not give", what, bytes);
  if (bytes > SIZE_MAX / 2) return out_of_memory;
  if (bytes < kHugePage) {
    void* memory = std::aligned_alloc(kAlignment, RoundUp(bytes, kAlignment));
    if (memory == nullptr) return out_of_memory;
    std::memset(memory, 0, bytes);
    buffer.data_ = static_cast<uint8_t*>(memory);
  } else {
    // Over-reserve by one huge page and give the unaligned ends back, so that the kernel can use 2 MiB pages throughout.
    const size_t size = RoundUp(bytes, kHugePage);
    void* memory = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return out_of_memory;
    const uintptr_t begin = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t aligned = RoundUp(begin, kHugePage);
    if (aligned > begin) munmap(memory, aligned - begin);
    if (aligned + size < begin + size + kHugePage) {
      munmap(reinterpret_cast<void*>(aligned + size), begin + kHugePage - aligned);
    }
    buffer.data_ = reinterpret_cast<uint8_t*>(aligned);
    buffer.mapped_ = size;
#ifdef MADV_HUGEPAGE
    madvise(buffer.data_, size, MADV_HUGEPAGE);
#endif
  }
  buffer.size_ = bytes;
  return buffer;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (mapped_ != 0) {
    munmap(data_, mapped_);
  } else {
    std::free(data_);
  }
}

}  // namespace moonlit
