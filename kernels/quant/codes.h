// SPDX-License-Identifier: Apache-2.0
// What a block's bytes say as whole numbers, for code that multiplies them as such and for the judge of such code. Every
// format's file gives it beside its decoder; pieces that several formats share are here.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/float16.h"

namespace moonlit {

// Value i = scale[i / group] * code[i] - min[i / group].
struct BlockCodes {
  static constexpr size_t kMaxValues = 256;
  size_t values;  // of the block
  size_t group;   // values that share a scale: 32 or 16
  bool has_min;
  int code[kMaxValues];
  float scale[16];
  float min[16];
};

namespace codes {

static inline void Begin(BlockCodes* c, size_t values, size_t group, bool has_min) {
  c->values = values;
  c->group = group;
  c->has_min = has_min;
  for (float& m : c->min) m = 0.0f;
}

static inline float Half(const uint8_t* bytes) { return F32FromF16(static_cast<uint16_t>(bytes[0] | bytes[1] << 8)); }

// Sixteen bytes: value i in the low nibble of byte i, value i + 16 in the high one.
static inline void Nibbles(const uint8_t* bytes, int* code) {
  for (int i = 0; i < 16; ++i) {
    code[i] = bytes[i] & 15;
    code[i + 16] = bytes[i] >> 4;
  }
}

static inline void AddFifthBits(const uint8_t* bytes, int* code) {
  for (int i = 0; i < 32; ++i) code[i] += (bytes[i / 8] >> (i % 8) & 1) << 4;
}

// Value 128h + 32j + l is in bits 2j, 2j + 1 of byte 32h + l.
static inline int TwoBits(const uint8_t* bytes, int i) {
  return bytes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

// F16 d and dmin, then eight 6-bit scales and minima in twelve bytes (Q4_K, Q5_K).
static inline void SixBitScales(const uint8_t* b, BlockCodes* c) {
  const uint8_t* s = b + 4;
  for (int g = 0; g < 8; ++g) {
    const int j = g % 4;
    const int scale = g < 4 ? s[j] & 63 : (s[8 + j] & 15) | (s[j] >> 6) << 4;
    const int min = g < 4 ? s[4 + j] & 63 : s[8 + j] >> 4 | (s[4 + j] >> 6) << 4;
    c->scale[g] = Half(b) * static_cast<float>(scale);
    c->min[g] = Half(b + 2) * static_cast<float>(min);
  }
}

}  // namespace codes
}  // namespace moonlit
