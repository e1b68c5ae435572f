// SPDX-License-Identifier: Apache-2.0
// Conversions between f32 and the short floating-point types, bit by bit, so that they give the same result on every
// machine and under every compiler flag. `static inline`, because variant objects may include no weak symbols.
//
//   F16   IEEE 754 binary16: 1 sign, 5 exponent, 10 mantissa bits; largest finite 65504, smallest subnormal 2^-24
//   BF16  the upper half of an f32: 1, 8, 7
//   E8M0  an exponent alone: 2^(e - 127), 255 is NaN (OCP Microscaling Formats 1.0, section 5.4.1)
//
// To the shorter type: round to nearest, ties to even; overflow gives an infinity; a NaN stays a NaN, becomes quiet,
// and keeps its sign and the upper bits of its payload. To f32: exact.
#pragma once

#include <stdint.h>
#include <string.h>

namespace moonlit {

static inline uint32_t F32Bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static inline float F32FromBits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static inline float F32FromF16(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1F;
  const uint32_t mantissa = half & 0x3FFu;
  if (exponent == 0x1F) return F32FromBits(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) return F32FromBits(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Zero or subnormal: mantissa * 2^-24, exact in f32.
  return F32FromBits(sign | F32Bits(static_cast<float>(mantissa) * 0x1p-24f));
}

static inline uint16_t F16FromF32(float value) {
  const uint32_t bits = F32Bits(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);  // from 65520, half way to 2^16
  if (magnitude >= 0x38800000u) {                                              // from 2^-14: a normal F16
    const uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
  }
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);  // below 2^-25, half the smallest subnormal
  // value = significand * 2^(exponent - 150); the result counts units of 2^-24.
  const uint32_t shift = 126 - (magnitude >> 23);  // 14 to 24
  const uint32_t significand = (magnitude & 0x7FFFFFu) | 0x800000u;
  const uint32_t kept = significand >> shift;
  const uint32_t rest = significand & ((1u << shift) - 1u);
  const uint32_t half_way = 1u << (shift - 1u);
  const uint32_t up = (rest > half_way || (rest == half_way && (kept & 1u))) ? 1u : 0u;
  return static_cast<uint16_t>(sign | (kept + up));
}

static inline float F32FromBF16(uint16_t bf16) { return F32FromBits(static_cast<uint32_t>(bf16) << 16); }

static inline uint16_t BF16FromF32(float value) {
  const uint32_t bits = F32Bits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// 2^(e - 127); e = 0 is the subnormal 2^-127.
static inline float F32FromE8M0(uint8_t e) {
  if (e == 0) return F32FromBits(0x00400000u);
  if (e == 255) return F32FromBits(0x7FC00000u);
  return F32FromBits(static_cast<uint32_t>(e) << 23);
}

}  // namespace moonlit
