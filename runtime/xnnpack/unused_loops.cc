// SPDX-License-Identifier: Apache-2.0
// pthreadpool's other loops. XNNPACK's objects name them for operators that we do not make; a call would be a programming error.
// Their types do not matter, so pthreadpool.h, which would have a say in them, is not included.
#include "kernels/base/check.h"

#define MOONLIT_UNUSED_LOOP(name)         \
  extern "C" void name() {                \
    const bool loop_of_a_product = false; \
    MOONLIT_CHECK(loop_of_a_product);     \
  }

MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_1d)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_1d_tile_1d)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_1d_with_thread)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_2d)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_2d_tile_1d)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_2d_tile_1d_with_uarch)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_2d_with_thread)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_3d)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_3d_tile_1d)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_3d_tile_1d_with_thread)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_3d_tile_1d_with_uarch)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_3d_tile_1d_with_uarch_with_thread)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_3d_tile_2d)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_3d_tile_2d_with_uarch)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_4d)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_4d_tile_2d)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_4d_tile_2d_with_uarch)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_5d)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_5d_tile_2d)
MOONLIT_UNUSED_LOOP(pthreadpool_parallelize_6d_tile_2d)
