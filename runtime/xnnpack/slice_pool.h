// SPDX-License-Identifier: Apache-2.0
// The thread pool that XNNPACK sees: pthreadpool's interface over one task of our own pool.
//
// An operator is run by every task for itself, each with a pthreadpool of its own on the stack. The operator's parallel loop then
// runs in the calling thread, over the outputs that the task has to make and no others. So XNNPACK starts no threads, waits for
// none, and the size of a task is ours.
//
// pthreadpool's interface: https://github.com/google/pthreadpool, include/pthreadpool.h. The upstream library is not linked; of
// its loops only the one that a matrix product uses does something here, and a call of another one ends the program.
#pragma once

#include <pthreadpool.h>

#include <cstddef>

struct pthreadpool {
  size_t first = 0;         // outputs [first, end) are made; first is a multiple of the tile's outputs
  size_t end = 0;           // 0: nothing is made, only tile_rows and tile_outputs are found out
  size_t tile_rows = 0;     // what the operator's kernel makes at once
  size_t tile_outputs = 0;  // likewise
};
