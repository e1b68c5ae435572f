// SPDX-License-Identifier: Apache-2.0
// The int8 peak of this core: a loop of independent vpdpbusd on registers. Inline assembly, so that no other file needs
// intrinsics; REQUIRES AVX-512 VNNI.
#pragma once

#include <stddef.h>

namespace moonlit {

template <class Clock>
double MeasurePeakGops(Clock now) {
  double best = 0.0;
  constexpr size_t kLoops = 2000000;
  for (int pass = 0; pass < 5; ++pass) {
    size_t loops = kLoops;
    const double start = now();
    __asm__ volatile(
        "1:\n"
        "vpdpbusd %%zmm17, %%zmm16, %%zmm0\n vpdpbusd %%zmm17, %%zmm16, %%zmm1\n"
        "vpdpbusd %%zmm17, %%zmm16, %%zmm2\n vpdpbusd %%zmm17, %%zmm16, %%zmm3\n"
        "vpdpbusd %%zmm17, %%zmm16, %%zmm4\n vpdpbusd %%zmm17, %%zmm16, %%zmm5\n"
        "vpdpbusd %%zmm17, %%zmm16, %%zmm6\n vpdpbusd %%zmm17, %%zmm16, %%zmm7\n"
        "vpdpbusd %%zmm17, %%zmm16, %%zmm8\n vpdpbusd %%zmm17, %%zmm16, %%zmm9\n"
        "vpdpbusd %%zmm17, %%zmm16, %%zmm10\n vpdpbusd %%zmm17, %%zmm16, %%zmm11\n"
        "dec %0\n jnz 1b\n vzeroupper\n"
        : "+r"(loops)
        :
        : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "cc");
    const double gops = 1e-9 * 12.0 * 128.0 * kLoops / (now() - start);
    if (gops > best) best = gops;
  }
  return best;
}

}  // namespace moonlit
