// SPDX-License-Identifier: Apache-2.0
// The tables of points that ggml's formats IQ1, IQ2 and IQ3 choose from: a group of eight (IQ3: four) weights is the number of a
// point, and signs beside it. The points are part of the formats; no rule gives them (tools/quant/make_codebooks.py).
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit::codebooks {

// Entries of eight values, two bits each: level of value i in bits 2i, 2i + 1.
extern const uint16_t kIq1Grid[2048];  // IQ1_S and IQ1_M
extern const uint16_t kIq2XxsGrid[256];
extern const uint16_t kIq2XsGrid[512];
extern const uint16_t kIq2SGrid[1024];
// Entries of four values, three bits each.
extern const uint16_t kIq3XxsGrid[256];
extern const uint16_t kIq3SGrid[512];

// What levels stand for. IQ1 adds or subtracts an eighth.
inline constexpr float kIq1Levels[4] = {-1, 0, 1, 0};
inline constexpr float kIq1Shift = 0.125f;
inline constexpr float kIq2Levels[4] = {8, 25, 43, 0};
inline constexpr float kIq3XxsLevels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr float kIq3SLevels[8] = {1, 3, 5, 7, 9, 11, 13, 15};

// Eight signs stored in seven bits: the eighth makes the number of minus signs even.
inline uint8_t SignsOf(uint32_t seven) {
  seven &= 127;
  const uint32_t folded = seven ^ seven >> 4;
  const uint32_t odd = (folded ^ folded >> 1 ^ folded >> 2 ^ folded >> 3) & 1;
  return static_cast<uint8_t>(seven | odd << 7);
}

// Eight values: scale * level, negative where the value's bit in `signs` is set.
inline void Decode8(float scale, uint16_t entry, uint8_t signs, float* values) {
  for (size_t i = 0; i < 8; ++i) {
    const float value = scale * kIq2Levels[entry >> (2 * i) & 3];
    values[i] = (signs >> i & 1) != 0 ? -value : value;
  }
}

// Four values of a table of IQ3; bits 0 to 3 of `signs`.
inline void Decode4(float scale, const float (&levels)[8], uint16_t entry, uint32_t signs, float* values) {
  for (size_t i = 0; i < 4; ++i) {
    const float value = scale * levels[entry >> (3 * i) & 7];
    values[i] = (signs >> i & 1) != 0 ? -value : value;
  }
}

// Eight values of IQ1: scale * (level + shift).
inline void DecodeShifted8(float scale, uint16_t entry, float shift, float* values) {
  for (size_t i = 0; i < 8; ++i) values[i] = scale * (kIq1Levels[entry >> (2 * i) & 3] + shift);
}

}  // namespace moonlit::codebooks
