// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/state_pool.h"

#include "kernels/base/check.h"

namespace moonlit {

Result<std::unique_ptr<StatePool>> StatePool::Create(size_t bytes, size_t slots, const Allocator& allocator) {
  MOONLIT_CHECK(bytes > 0 && bytes % sizeof(float) == 0);
  if (bytes / sizeof(float) > UINT32_MAX) {
    return Errorf(Code::kOutOfMemory, "recurrent states: %zu bytes for one sequence; expected at most 2^34", bytes);
  }
  if (slots == 0 || slots >= kNone) {
    return Errorf(Code::kInvalidArgument, "recurrent states: %zu slots; expected 1 to %u", slots, kNone - 1);
  }
  const size_t stride = StrideOf(bytes);
  if (stride < bytes || stride > SIZE_MAX / slots) {
    return Errorf(Code::kOutOfMemory,
                  "recurrent states: %zu of %zu bytes are more than this machine can address; ask for fewer sessions",
                  slots, bytes);
  }
  MOONLIT_ASSIGN_OR_RETURN(Buffer memory, Buffer::Allocate(stride * slots, "the recurrent states", allocator));
  std::unique_ptr<StatePool> pool(new StatePool(bytes, stride, std::move(memory)));
  pool->references_.resize(slots);
  pool->free_.reserve(slots);
  for (size_t slot = slots; slot > 0; --slot) pool->free_.push_back(static_cast<Slot>(slot - 1));
  return pool;
}

Result<StatePool::Slot> StatePool::Allocate() {
  if (free_.empty()) {
    return Errorf(Code::kExhausted, "all %zu recurrent states are in use; end a session or load with more of them",
                  references_.size());
  }
  const Slot slot = free_.back();
  free_.pop_back();
  references_[slot] = 1;
  return slot;
}

void StatePool::Share(Slot slot) {
  MOONLIT_CHECK(references_[slot] > 0);
  ++references_[slot];
}

void StatePool::Release(Slot slot) {
  if (slot == kNone) return;
  MOONLIT_CHECK(references_[slot] > 0);
  if (--references_[slot] == 0) free_.push_back(slot);
}

}  // namespace moonlit
