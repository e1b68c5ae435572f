// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace moonlit {
namespace {

bool Meet(const BufferNeed& a, const BufferNeed& b) {
  return a.first_stage <= b.last_stage && b.first_stage <= a.last_stage;
}

TEST(MemoryPlanTest, NothingNeedsNothing) { EXPECT_EQ(PlanMemory({}).bytes, 0u); }

TEST(MemoryPlanTest, DisjointLifetimesShareBytes) {
  const BufferNeed needs[] = {{1000, 0, 1}, {1000, 2, 3}, {1000, 4, 4}};
  const MemoryPlan plan = PlanMemory(needs);
  EXPECT_EQ(plan.bytes, 1024u);
  EXPECT_EQ(plan.offsets, (std::vector<uint64_t>{0, 0, 0}));
}

TEST(MemoryPlanTest, AHoleThatFitsIsUsed) {
  const BufferNeed needs[] = {{1024, 0, 0}, {512, 0, 2}, {256, 0, 2}, {1024, 1, 2}};
  const MemoryPlan plan = PlanMemory(needs);
  EXPECT_EQ(plan.bytes, 1024u + 512u + 256u);
}

TEST(MemoryPlanTest, BuffersThatLiveTogetherNeverOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<BufferNeed> needs(1 + random() % 40);
    for (BufferNeed& need : needs) {
      need.bytes = random() % 5000;
      need.first_stage = random() % 30;
      need.last_stage = need.first_stage + random() % 10;
    }
    const MemoryPlan plan = PlanMemory(needs);
    for (size_t i = 0; i < needs.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % kArenaAlignment, 0u);
      EXPECT_LE(plan.offsets[i] + needs[i].bytes, plan.bytes);
      for (size_t j = 0; j < i; ++j) {
        if (!Meet(needs[i], needs[j])) continue;
        const bool apart =
            plan.offsets[i] + needs[i].bytes <= plan.offsets[j] || plan.offsets[j] + needs[j].bytes <= plan.offsets[i];
        EXPECT_TRUE(apart || needs[i].bytes == 0 || needs[j].bytes == 0) << i << " and " << j;
      }
    }
  }
}

}  // namespace
}  // namespace moonlit
