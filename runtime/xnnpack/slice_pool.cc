// SPDX-License-Identifier: Apache-2.0
#include "runtime/xnnpack/slice_pool.h"

#include <algorithm>
#include <cstdint>

namespace {

// Calls body(row, output, rows, outputs) for every tile of the pool's outputs: weights stay in a cache while rows pass by.
template <class Body>
void ForTiles(pthreadpool& pool, size_t rows, size_t outputs, size_t tile_rows, size_t tile_outputs, Body body) {
  pool.tile_rows = tile_rows;
  pool.tile_outputs = tile_outputs;
  const size_t end = std::min(pool.end, outputs);
  for (size_t n = pool.first; n < end; n += tile_outputs) {
    for (size_t m = 0; m < rows; m += tile_rows) {
      body(m, n, std::min(tile_rows, rows - m), std::min(tile_outputs, end - n));
    }
  }
}

}  // namespace

// Not hidden: XNNPACK's objects find these by their names. The flag to flush denormal numbers is not heeded: the numeric contract
// keeps them.
extern "C" {

// Operators cut their outputs by the number of threads; with so many the pieces are the kernel's own tiles.
size_t pthreadpool_get_threads_count(pthreadpool_t pool) { return pool == nullptr ? 1 : SIZE_MAX / 8; }

void pthreadpool_parallelize_2d_tile_2d(pthreadpool_t pool, pthreadpool_task_2d_tile_2d_t function, void* context,
                                        size_t rows, size_t outputs, size_t tile_rows, size_t tile_outputs, uint32_t) {
  ForTiles(*pool, rows, outputs, tile_rows, tile_outputs,
           [&](size_t m, size_t n, size_t count_m, size_t count_n) { function(context, m, n, count_m, count_n); });
}

// On a processor with cores of several kinds every core takes the kernel of the default kind: bits must not depend on the core.
void pthreadpool_parallelize_2d_tile_2d_with_uarch(pthreadpool_t pool, pthreadpool_task_2d_tile_2d_with_id_t function,
                                                   void* context, uint32_t default_kind, uint32_t, size_t rows,
                                                   size_t outputs, size_t tile_rows, size_t tile_outputs, uint32_t) {
  ForTiles(*pool, rows, outputs, tile_rows, tile_outputs, [&](size_t m, size_t n, size_t count_m, size_t count_n) {
    function(context, default_kind, m, n, count_m, count_n);
  });
}

}  // extern "C"
