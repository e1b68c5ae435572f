// SPDX-License-Identifier: Apache-2.0
// A step allocates nothing: operator new is counted for the whole process, worker threads included, and the C functions in all
// objects of this program (the linker puts ours in their place: see CMakeLists.txt).
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/models/loaded_model.h"

namespace {
std::atomic<long> allocations{0};

void* Count(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
}  // namespace

extern "C" {
void* __real_malloc(size_t size);
void* __real_calloc(size_t count, size_t size);
void* __real_realloc(void* memory, size_t size);
int __real_posix_memalign(void** memory, size_t alignment, size_t size);
void* __wrap_malloc(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __real_malloc(size);
}
void* __wrap_calloc(size_t count, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __real_calloc(count, size);
}
void* __wrap_realloc(void* memory, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __real_realloc(memory, size);
}
int __wrap_posix_memalign(void** memory, size_t alignment, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __real_posix_memalign(memory, alignment, size);
}
}

void* operator new(std::size_t size) { return Count(size); }
void* operator new[](std::size_t size) { return Count(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace moonlit::test {
namespace {

class Ignore : public LogitsConsumer {
 public:
  void Consume(size_t, size_t, size_t rows, const float*, size_t) override { consumed += rows; }
  size_t consumed = 0;
};

long AllocationsOfStep(LoadedModel& model, Sequence& sequence, std::span<const int32_t> tokens, Outputs outputs) {
  EXPECT_TRUE(sequence.Reserve(sequence.length() + static_cast<int64_t>(tokens.size())).ok());
  StepSpan span{.tokens = tokens,
                .pages = sequence.pages(),
                .first_slot = sequence.length(),
                .positions = {},
                .outputs = outputs};
  Ignore consumer;
  const long before = allocations.load();
  const bool ok = model.plan().Run({&span, 1}, &consumer).ok();
  const long after = allocations.load();
  EXPECT_TRUE(ok);
  sequence.Commit(static_cast<int64_t>(tokens.size()));
  return after - before;
}

TEST(StepAllocationTest, PrefillAndDecodeAllocateNothing) {
  const long at_start = allocations.load();
  for (const char* fixture : {"llama", "llama-kquant", "qwen3moe"}) {
    LoadedModel model(fixture, {.threads = 3});
    Sequence sequence(&model.pages());
    const std::vector<int32_t> tokens(64, 5);
    // Three prefills reach past a segment of 32 in the small build and several tiles in the other one.
    for (int i = 0; i < 3; ++i) EXPECT_EQ(AllocationsOfStep(model, sequence, tokens, Outputs::kAll), 0) << fixture;
    EXPECT_EQ(AllocationsOfStep(model, sequence, std::span(tokens).first(1), Outputs::kLast), 0) << fixture;
  }
  EXPECT_GT(allocations.load(), at_start) << "the counter works";
}

}  // namespace
}  // namespace moonlit::test
