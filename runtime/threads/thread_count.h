// SPDX-License-Identifier: Apache-2.0
// How many threads a pool may have.
#pragma once

#include <cstddef>

#include "runtime/base/status.h"

namespace moonlit {

inline constexpr size_t kMostThreads = 1024;

inline Status CheckThreadCount(size_t threads) {
  if (threads <= kMostThreads) return Status();
  return Errorf(Code::kInvalidArgument, "thread pool: threads is %zu, the most is %zu", threads, kMostThreads);
}

}  // namespace moonlit
