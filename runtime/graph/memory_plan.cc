// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace moonlit {
namespace {

uint64_t Aligned(uint64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

}  // namespace

MemoryPlan PlanMemory(std::span<const BufferNeed> needs) {
  MemoryPlan plan;
  plan.offsets.assign(needs.size(), 0);
  std::vector<size_t> order(needs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return needs[a].bytes > needs[b].bytes; });
  std::vector<size_t> placed;  // by ascending offset
  for (size_t index : order) {
    const BufferNeed& need = needs[index];
    const uint64_t size = Aligned(need.bytes);
    uint64_t offset = 0;
    for (size_t other : placed) {
      const BufferNeed& n = needs[other];
      if (n.first_stage > need.last_stage || n.last_stage < need.first_stage) continue;
      if (plan.offsets[other] >= offset + size) break;
      offset = std::max(offset, plan.offsets[other] + Aligned(n.bytes));
    }
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](uint64_t value, size_t p) { return value < plan.offsets[p]; }),
                  index);
  }
  return plan;
}

}  // namespace moonlit
