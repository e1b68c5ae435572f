// SPDX-License-Identifier: Apache-2.0
// Encoding of the K formats with scale and minimum: Q2_K, Q4_K, Q5_K. The formats differ in group size and bits; the
// search is one.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit {

// 256 values, x = (d * scales[g]) * q - (dmin * minima[g]).
struct KAffine {
  uint16_t d, dmin;                // F16 bits
  uint8_t scales[16], minima[16];  // 0 .. scale_high; one a group
  uint8_t q[256];                  // 0 .. q_high
};

// `importance`: [256] or null. Instantiated for groups of 16 and 32 values.
template <size_t kGroup>
void EncodeKAffine(const float* values, const float* importance, int q_high, int scale_high, KAffine* block);

extern template void EncodeKAffine<16>(const float*, const float*, int, int, KAffine*);
extern template void EncodeKAffine<32>(const float*, const float*, int, int, KAffine*);

}  // namespace moonlit
