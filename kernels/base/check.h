// SPDX-License-Identifier: Apache-2.0
// Checks for programmers: a broken precondition is a bug of ours, never a property of the input. Input errors are a Status
// (runtime/base/status.h). MOONLIT_DCHECK costs nothing in release builds.
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define MOONLIT_CHECK(condition)                                                           \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      fprintf(stderr, "%s:%d: broken precondition: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                             \
    }                                                                                      \
  } while (0)

#ifdef NDEBUG
#define MOONLIT_DCHECK(condition) \
  do {                            \
    (void)sizeof(condition);      \
  } while (0)
#else
#define MOONLIT_DCHECK(condition) MOONLIT_CHECK(condition)
#endif
