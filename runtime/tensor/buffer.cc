// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/buffer.h"

#include <cinttypes>

namespace moonlit {

Result<Buffer> Buffer::Allocate(uint64_t bytes, const char* what, const Allocator& allocator) {
  constexpr uint64_t kMost = SIZE_MAX / 2;  // differences of addresses are signed
  Buffer buffer;
  if (bytes == 0) return buffer;
  if (bytes > kMost) {
    return Errorf(Code::kOutOfMemory, "%s needs %" PRIu64 " bytes, more than this machine can address", what, bytes);
  }
  const auto size = static_cast<size_t>(bytes);
  MOONLIT_ASSIGN_OR_RETURN(void* memory, AllocateBig(allocator, size, what));
  buffer.data_ = static_cast<uint8_t*>(memory);
  buffer.size_ = size;
  buffer.allocator_ = allocator;
  return buffer;
}

Buffer::~Buffer() {
  if (data_ != nullptr) ReleaseBig(allocator_, data_, size_);
}

}  // namespace moonlit
