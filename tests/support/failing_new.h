// SPDX-License-Identifier: Apache-2.0
// Makes operator new fail where a test wants it. Add tests/support/failing_new.cc to the test's SOURCES: it replaces the global operators
// of that program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moonlit {

enum class Failing {
  kOnce,     // the nth call from now on
  kForGood,  // that one and all after it
};

// All threads together, until DisarmNew. n: from 1 on.
void ArmNew(size_t n, Failing failing);
// Returns whether some call has failed.
bool DisarmNew();

int64_t LiveBlocks();  // that operator new gave and that were not given back

}  // namespace moonlit
