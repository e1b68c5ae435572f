// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/buffer.h"

namespace moonlit {

Result<Buffer> Buffer::Allocate(size_t bytes, const char* what, const Allocator& allocator) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  MOONLIT_ASSIGN_OR_RETURN(void* memory, AllocateBig(allocator, bytes, what));
  buffer.data_ = static_cast<uint8_t*>(memory);
  buffer.size_ = bytes;
  buffer.allocator_ = allocator;
  return buffer;
}

Buffer::~Buffer() {
  if (data_ != nullptr) ReleaseBig(allocator_, data_, size_);
}

}  // namespace moonlit
