// SPDX-License-Identifier: Apache-2.0
// How much memory the machine, or the container that the process lives in, has left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace moonlit::cli {

struct FreeMemory {
  uint64_t bytes;
  std::string reason;  // "available by /proc/meminfo", "left of the container's limit"
};

// What could be allocated without pushing others out: Linux's MemAvailable (proc(5)), or what is left below the limit of a control group
// that the process is in (v2 memory.max and memory.current, v1 memory.limit_in_bytes and memory.usage_in_bytes), whichever is less.
// Empty where the system says neither. `root`: before /proc and /sys, for tests.
std::optional<FreeMemory> ReadFreeMemory(const std::string& root = "");

}  // namespace moonlit::cli
