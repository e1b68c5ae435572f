// SPDX-License-Identifier: Apache-2.0
// Dot products of bf16 pairs: each 32-bit lane holds two bf16 (the first in the low half), and
//   DotBF16Pairs(sum, a, b) = sum + a.low * b.low + a.high * b.high        per lane, in f32
// by vdpbf16ps or bfdot. The two products' order and rounding are the instruction's: vdpbf16ps adds the high product, then the
// low one, and rounds each sum to nearest; bfdot rounds each product, their sum, and the whole, all to odd (truncated, with the
// last bit set if anything was lost), as long as nobody sets FPCR.EBF. Both take numbers below the normal ones for zeros.
// kHasBF16Dot says whether the variant has one; without it the functions may be named but not called.
#pragma once

#include "kernels/simd/dot-inl.h"

#if MOONLIT_HAS_VDPBF16
#include <immintrin.h>
#endif

namespace moonlit {
namespace MOONLIT_NS {
namespace {

#if MOONLIT_HAS_VDPBF16
constexpr bool kHasBF16Dot = true;

HWY_INLINE VF32 DotBF16Pairs(VF32 sum, VU32 a, VU32 b) {
  return VF32{_mm512_dpbf16_ps(sum.raw, reinterpret_cast<__m512bh>(a.raw), reinterpret_cast<__m512bh>(b.raw))};
}

// 2 kLanes f16 numbers from any address, rounded to bf16 (nearest), in their order.
HWY_INLINE VU32 BF16PairsOfHalves(const uint8_t* halves) {
  const __m512 low = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
  const __m512 high = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves + 32)));
  return VU32{reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low))};
}
#elif MOONLIT_HAS_BFDOT
constexpr bool kHasBF16Dot = true;

HWY_INLINE VF32 DotBF16Pairs(VF32 sum, VU32 a, VU32 b) {
  return VF32(vbfdotq_f32(sum.raw, vreinterpretq_bf16_u32(a.raw), vreinterpretq_bf16_u32(b.raw)));
}

// The same with one lane of `a` for all lanes.
template <size_t kLane>
HWY_INLINE VF32 DotBF16PairOfLane(VF32 sum, VU32 a, VU32 b) {
  return VF32(vbfdotq_laneq_f32(sum.raw, vreinterpretq_bf16_u32(b.raw), vreinterpretq_bf16_u32(a.raw), kLane));
}

// 2 kLanes f16 numbers from any address, rounded to bf16 (nearest), in their order.
HWY_INLINE VU32 BF16PairsOfHalves(const uint8_t* halves) {
  const float16x8_t eight = vreinterpretq_f16_u8(vld1q_u8(halves));
  const bfloat16x8_t low = vcvtq_low_bf16_f32(vcvt_f32_f16(vget_low_f16(eight)));
  return VU32(vreinterpretq_u32_bf16(vcvtq_high_bf16_f32(low, vcvt_high_f32_f16(eight))));
}
#else
constexpr bool kHasBF16Dot = false;

HWY_INLINE VF32 DotBF16Pairs(VF32 sum, VU32, VU32) { return sum; }
#endif

// f32 rounded to bf16 (nearest, ties to even; NaN stays NaN), left in the upper half of each lane.
MOONLIT_INNER VU32 RoundToBF16(VF32 x) {
  const DU32 du32;
  const VU32 bits = hn::BitCast(du32, x);
  const VU32 odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du32, 1));
  const VU32 rounded = hn::Add(bits, hn::Add(odd, hn::Set(du32, 0x7FFF)));
  const VU32 kept =
      hn::IfThenElse(hn::RebindMask(du32, hn::IsNaN(x)), hn::Or(bits, hn::Set(du32, 0x00400000u)), rounded);
  return hn::And(kept, hn::Set(du32, 0xFFFF0000u));
}

// Stores x as bf16 and gives what was stored back as f32.
MOONLIT_INNER VF32 StoreAsBF16(VF32 x, uint16_t* out) {
#if MOONLIT_HAS_VDPBF16
  // Rounds as RoundToBF16 does but for subnormal numbers, which become zeros; so does the dot product.
  const __m256i rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x.raw));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), rounded);
  return VF32{_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16))};
#else
  const hn::Rebind<uint16_t, DF32> du16;
  const VU32 rounded = RoundToBF16(x);
  hn::StoreU(hn::TruncateTo(du16, hn::ShiftRight<16>(rounded)), du16, out);
  return hn::BitCast(DF32(), rounded);
#endif
}

// Stores a, then b, as bf16 and adds what was stored to `sum`, each element in some lane.
MOONLIT_INNER VF32 StoreAndAddBF16(VF32 sum, VF32 a, VF32 b, uint16_t* out) {
#if MOONLIT_HAS_VDPBF16
  const __m512i pairs = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b.raw, a.raw));
  _mm512_storeu_si512(out, pairs);
  return DotBF16Pairs(sum, VU32{pairs}, hn::Set(DU32(), 0x3F803F80u));
#else
  const VF32 first = StoreAsBF16(a, out);
  return hn::Add(sum, hn::Add(first, StoreAsBF16(b, out + kLanes)));
#endif
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
