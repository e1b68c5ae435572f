// SPDX-License-Identifier: Apache-2.0
// What a core can do at most, for benches that say how much of it a kernel reaches: multiply-adds on registers by the very
// instructions that the products and attention use, and a sum over memory that does nothing but read.
//
//   const PeakLoop& loop = GetPeakTable(variant).int8;
//   double sum = loop.run(input, rounds);                     // takes t seconds
//   double gops = 1e-9 * PeakOps(loop) * rounds / t;          // two operations a multiply-add
//
// A dot loop keeps rows x columns vectors of `lanes` 32-bit accumulators, which begin at 0. In round i (phase p = i % 2),
// `repeats` times over, every accumulator gets `depth` multiply-adds:
//
//   int8   acc[r][l]    += sum over d < depth of w8[p][4 l + d % 4] * a8[r][d]       columns 1, depth a multiple of 4
//   bf16   acc[r][c][l] += sum over d < 2 of a16[p][r][2 l + d] * b16[c][2 l + d]    depth 2
//   f32    acc[r][c][l] += a32[p][r][l] * b32[c][l]                                  depth 1
//
// `run` returns the sum of all accumulators, so none of the work can be left out; with small integers (PeakInput) it is exact
// and a test can compute it. Operands change from round to round, so no product can be taken out of the loop.
// Pure: no allocation, no threads.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/variant.h"

namespace moonlit {

inline constexpr size_t kPeakMaxRounds = 8192;  // of one call: no int32 accumulator overflows, no f32 one rounds
inline constexpr size_t kPeakRows = 12;
inline constexpr size_t kPeakColumns = 6;

// Operands for every kind of loop. w8: 0 .. 15; a8: -127 .. 127; the others integers of magnitude 1 to 4, as bf16 and f32.
struct PeakInput {
  alignas(64) uint8_t w8[2][64];
  alignas(64) int8_t a8[kPeakRows][32];
  alignas(64) uint16_t a16[2][2][32];
  alignas(64) uint16_t b16[kPeakColumns][32];
  alignas(64) float a32[2][2][16];
  alignas(64) float b32[kPeakColumns][16];
};

// The same pseudo-random operands for every seed and machine.
void FillPeakInput(uint32_t seed, PeakInput* input);

struct PeakLoop {
  const char* name;  // the instruction, for reports
  size_t lanes, rows, columns, depth, repeats;
  // REQUIRES: rounds <= kPeakMaxRounds. Null where the variant has no such instruction (bf16).
  double (*run)(const PeakInput& input, size_t rounds);
};

// Operations of one round.
static inline double PeakOps(const PeakLoop& loop) {
  return 2.0 * (double)(loop.lanes * loop.rows * loop.columns * loop.depth * loop.repeats);
}

inline constexpr size_t kReadUnit = 256;  // bytes that a stream advances at a time
inline constexpr size_t kReadStreams[] = {1, 2, 4, 8};

struct PeakTable {
  PeakLoop int8, bf16, f32;
  // Sum of the 64-bit words of [data, data + bytes), modulo 2^64, read as `streams` equal parts side by side.
  // REQUIRES: data 64-byte aligned, bytes a multiple of streams * kReadUnit, streams one of kReadStreams.
  uint64_t (*read)(const uint8_t* data, size_t bytes, size_t streams);
};

// REQUIRES: IsBuilt(variant).
const PeakTable& GetPeakTable(Variant variant);

}  // namespace moonlit
