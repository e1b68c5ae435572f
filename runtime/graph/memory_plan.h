// SPDX-License-Identifier: Apache-2.0
// Offsets of intermediates in one arena, from their lifetimes. Two buffers may share bytes when no stage sees both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moonlit {

struct BufferNeed {
  uint64_t bytes;
  uint32_t first_stage;  // written first here
  uint32_t last_stage;   // read last here, >= first_stage
};

struct MemoryPlan {
  std::vector<uint64_t> offsets;  // one a need, multiples of kArenaAlignment
  uint64_t bytes = 0;             // size of the arena, which may be more than this machine can address
};

inline constexpr size_t kArenaAlignment = 128;  // two cache lines: neighbours are prefetched in pairs on x86

// Greedy: largest need first, each at the lowest offset where it meets no need of an overlapping lifetime. Deterministic.
MemoryPlan PlanMemory(std::span<const BufferNeed> needs);

}  // namespace moonlit
