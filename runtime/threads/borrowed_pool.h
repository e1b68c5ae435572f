// SPDX-License-Identifier: Apache-2.0
// How ThreadPool::Create makes a pool of an application's threads.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/threads/pool.h"

namespace moonlit {

// REQUIRES: loop.run != nullptr, threads > 0.
std::unique_ptr<ThreadPool> BorrowThreads(const ParallelFor& loop, size_t threads);

}  // namespace moonlit
