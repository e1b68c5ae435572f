// SPDX-License-Identifier: Apache-2.0
// Where the recurrent states of sequences live: slots of one size, reserved when the engine is created, beside the pages of the cache.
//
// A state that a sequence stands on is never written again: a step writes the next one into a slot of its own, which takes its place
// when the step has succeeded. So slots are reference counted and a fork is one more reference; a failed step only gives its
// slot back. Not thread safe: it is part of its PagePool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/base/round.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/tensor/buffer.h"

namespace moonlit {

class StatePool {
 public:
  using Slot = uint32_t;
  static constexpr Slot kNone = UINT32_MAX;

  // bytes: a multiple of sizeof(float), above 0. kInvalidArgument (no slots), kOutOfMemory.
  static Result<std::unique_ptr<StatePool>> Create(size_t bytes, size_t slots, const Allocator& allocator = {});

  // What a slot takes of the memory.
  static constexpr size_t StrideOf(size_t bytes) { return RoundUp(bytes, size_t{128}); }

  size_t bytes() const { return bytes_; }
  uint64_t memory_bytes() const { return memory_.size(); }
  size_t total() const { return references_.size(); }
  size_t free() const { return free_.size(); }
  // A slot with one reference and any content; kExhausted.
  Result<Slot> Allocate();
  void Share(Slot slot);
  void Release(Slot slot);  // kNone: does nothing
  float* data(Slot slot) { return reinterpret_cast<float*>(memory_.data() + size_t{slot} * stride_); }

 private:
  StatePool(size_t bytes, size_t stride, Buffer memory) : bytes_(bytes), stride_(stride), memory_(std::move(memory)) {}
  size_t bytes_, stride_;
  Buffer memory_;
  std::vector<Slot> free_;
  std::vector<uint32_t> references_;
};

}  // namespace moonlit
