// SPDX-License-Identifier: Apache-2.0
// Memory that is sized by input: allocation can fail, and says so. Large buffers ask for 2 MiB pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

namespace moonlit {

// Owns zero-initialised memory, 64-byte aligned (from the system also 2 MiB aligned and advised MADV_HUGEPAGE from 2 MiB up). Move only.
class Buffer {
 public:
  Buffer() = default;
  // kOutOfMemory names `what` and the size. A size of 0 is allowed. The system's pages are untouched until first written. Sizes are
  // added up in 64 bits and come as they are: what size_t can't hold is refused here.
  static Result<Buffer> Allocate(uint64_t bytes, const char* what, const Allocator& allocator = {});
  Buffer(Buffer&& other) noexcept { Swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~Buffer();

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  void Swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(allocator_, other.allocator_);
  }
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  Allocator allocator_;
};

}  // namespace moonlit
