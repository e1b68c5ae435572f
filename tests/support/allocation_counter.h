// SPDX-License-Identifier: Apache-2.0
// Counts what operator new hands out. Add tests/support/allocation_counter.cc to the test's SOURCES: it replaces the global
// operators of that program.
#pragma once

#include <cstddef>

namespace moonlit {

// From ResetAllocations() on, all threads together.
void ResetAllocations();
size_t PeakAllocatedBytes();  // highest sum of live bytes above the sum at the reset
size_t AllocationCount();

}  // namespace moonlit
