// SPDX-License-Identifier: Apache-2.0
// An application's allocator that keeps the books, and fails at a request of the test's choice.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/api/moonlit.h"

namespace moonlit::test {

class CountingAllocator {
 public:
  // fail_at: the number, from 1 on, of the request that gets nothing, and so do all after it; 0: none.
  explicit CountingAllocator(size_t fail_at = 0) : fail_at_(fail_at) {}
  ~CountingAllocator() {
    for (const auto& [memory, block] : blocks_) std::free(memory);
  }

  void Install(moonlit_model_options& options) {
    options.allocate = &Allocate;
    options.release = &Release;
    options.allocator_user = this;
  }

  struct Request {
    size_t bytes, alignment;
  };
  const std::vector<Request>& requests() const { return requests_; }
  size_t live_blocks() const { return blocks_.size(); }
  uint64_t live_bytes() const { return live_; }
  uint64_t most_bytes() const { return most_; }

 private:
  static void* Allocate(void* user, size_t bytes, size_t alignment) {
    auto& self = *static_cast<CountingAllocator*>(user);
    const std::lock_guard<std::mutex> lock(self.mutex_);
    self.requests_.push_back({bytes, alignment});
    if (self.requests_.size() >= self.fail_at_ && self.fail_at_ != 0) return nullptr;
    void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    // What is zero is not zero by luck.
    for (size_t i = 0; i < bytes; ++i) static_cast<uint8_t*>(memory)[i] = 0xFF;
    self.blocks_[memory] = bytes;
    self.live_ += bytes;
    self.most_ = self.live_ > self.most_ ? self.live_ : self.most_;
    return memory;
  }
  static void Release(void* user, void* memory, size_t bytes) {
    auto& self = *static_cast<CountingAllocator*>(user);
    const std::lock_guard<std::mutex> lock(self.mutex_);
    const auto found = self.blocks_.find(memory);
    ASSERT_NE(found, self.blocks_.end()) << "released what was not given, or twice";
    EXPECT_EQ(found->second, bytes);
    self.live_ -= found->second;
    self.blocks_.erase(found);
    std::free(memory);
  }

  const size_t fail_at_;
  std::mutex mutex_;
  std::map<void*, size_t> blocks_;
  std::vector<Request> requests_;
  uint64_t live_ = 0, most_ = 0;
};

}  // namespace moonlit::test
