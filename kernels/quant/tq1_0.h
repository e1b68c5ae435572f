// SPDX-License-Identifier: Apache-2.0
// TQ1_0: 256 weights of -1, 0 or 1 with one F16 scale: x = d * q. 1.6875 bits a weight. (TQ1_0 in ggml; read only.)
//
// A byte holds five weights (the last four bytes: four) as the fraction 0.t0 t1 t2 t3 t4 in base 3, rounded up to 1/256: multiplied by
// 3^n and cut to eight bits it is 0.tn ..., and the whole part of three times that is tn = q + 1.
//
//   byte  0 .. 31                  | 32 .. 47                      | 48 .. 51                      | 52 53
//         byte l, digit n: value   | byte l, digit n: value        | byte l, digit n: value        | d F16
//         32n + l                  | 160 + 16n + l                 | 240 + 4n + l                  |
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit::tq1_0 {

inline constexpr size_t kBlockValues = 256;

struct Block {
  uint8_t qs[48];
  uint8_t qh[4];
  uint16_t d;  // F16
};
static_assert(sizeof(Block) == 54);

void Dequantize(const uint8_t* bytes, float* values, size_t k);

}  // namespace moonlit::tq1_0
