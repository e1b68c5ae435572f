// SPDX-License-Identifier: Apache-2.0
// Byte dot products by the best instruction that a variant has. This is the one place outside kernels/cpu where intrinsics
// may appear: everything else is written in Highway.
//
// A step is four consecutive k of one activation row (4 int8, the same for all lanes) against a vector of weights that holds
// four bytes of one output in each 32-bit lane. Eight steps are a block of 32 k. All results are exact in int32.
//
//   DotUnsigned<15, 0, 8>(a, w, sums);   // w[s] lane n: weights 4s .. 4s+3 of output n, each in 0 .. 15; sums[r] += a[r] * w
//
//   variant            instruction           what is summed in 16 bits
//   AVX-512 VNNI       vpdpbusd zmm          nothing
//   AVX-VNNI           vpdpbusd ymm (VEX)    nothing
//   AVX2, SSSE3, ...   pmaddubsw, pmaddwd    as many steps as cannot saturate, from the weights' bound
//   NEON dotprod       sdot by lane          nothing
//   NEON               smull, smlal, sadalp  as many steps as cannot wrap, from the weights' bound
//   others             plain loops           nothing
//
// Activations are in -127 .. 127 (A8), never -128: pmaddubsw with moved signs needs it.
#pragma once

#include "kernels/cpu/variant-inl.h"
#include "kernels/simd/unroll-inl.h"

#if MOONLIT_HAS_VPDPBUSD512 || MOONLIT_HAS_VPDPBUSD256
#include <immintrin.h>
#endif
#if HWY_TARGET_IS_NEON
#include <arm_neon.h>
#endif

namespace moonlit {
namespace MOONLIT_NS {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DF32 = hn::ScalableTag<float>;
using DI32 = hn::RebindToSigned<DF32>;
using DU32 = hn::RebindToUnsigned<DF32>;
using DI16 = hn::Repartition<int16_t, DF32>;
using DU16 = hn::Repartition<uint16_t, DF32>;
using DI8 = hn::Repartition<int8_t, DF32>;
using DU8 = hn::Repartition<uint8_t, DF32>;
using VF32 = hn::Vec<DF32>;
using VI32 = hn::Vec<DI32>;
using VU32 = hn::Vec<DU32>;
using VI16 = hn::Vec<DI16>;
using VI8 = hn::Vec<DI8>;
using VU8 = hn::Vec<DU8>;

// 32-bit lanes of a vector: outputs that one instruction serves.
constexpr size_t kLanes = HWY_LANES(float);

// vpdpbusd multiplies unsigned by signed bytes, so signed weights are given to it with 128 added (and the product corrected
// by the activations' sum); every other instruction takes them as they are.
#if MOONLIT_HAS_VPDPBUSD512 || (MOONLIT_HAS_VPDPBUSD256 && HWY_MAX_BYTES == 32)
constexpr bool kBiasSignedWeights = true;
#else
constexpr bool kBiasSignedWeights = false;
#endif

HWY_INLINE int32_t LoadFour(const void* bytes) {
  int32_t value;
  memcpy(&value, bytes, sizeof(value));
  return value;
}

// Steps whose products of weights bounded by kBound fit one int16 lane that receives kPerStep of them a step.
constexpr size_t StepsInInt16(int bound, int per_step) { return static_cast<size_t>(32767 / (bound * 127 * per_step)); }

#if MOONLIT_HAS_VPDPBUSD512 || (MOONLIT_HAS_VPDPBUSD256 && HWY_MAX_BYTES == 32)

// sum + w * a, four bytes of `a` for all lanes.
HWY_INLINE VI32 Dpbusd(VI32 sum, VU8 w, const int8_t* four) {
#if MOONLIT_HAS_VPDPBUSD512 && defined(__GNUC__) && !defined(__clang__)
  // GCC 12 does not know that the instruction itself can read and repeat four bytes, and loads them by another one: a product
  // was 5% slower (Zen 4).
  typedef int32_t __attribute__((may_alias)) Four;
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(w.raw), "m"(*reinterpret_cast<const Four*>(four)));
  return sum;
#elif MOONLIT_HAS_VPDPBUSD512
  return VI32{_mm512_dpbusd_epi32(sum.raw, w.raw, hn::Set(DI32(), LoadFour(four)).raw)};
#elif defined(__AVXVNNI__)
  return VI32{_mm256_dpbusd_avx_epi32(sum.raw, w.raw, hn::Set(DI32(), LoadFour(four)).raw)};
#else
  return VI32{_mm256_dpbusd_epi32(sum.raw, w.raw, hn::Set(DI32(), LoadFour(four)).raw)};
#endif
}

constexpr bool kDotsUnsignedBySigned = true;

// sum + a * w, where `a` is the same four bytes in every lane, unsigned, and w is signed.
HWY_INLINE VI32 DotUnsignedBySigned(VI32 sum, VI32 a, VI8 w) {
#if MOONLIT_HAS_VPDPBUSD512
  return VI32{_mm512_dpbusd_epi32(sum.raw, a.raw, w.raw)};
#elif defined(__AVXVNNI__)
  return VI32{_mm256_dpbusd_avx_epi32(sum.raw, a.raw, w.raw)};
#else
  return VI32{_mm256_dpbusd_epi32(sum.raw, a.raw, w.raw)};
#endif
}

// `w` in 0 .. kBound; steps kFirst .. kFirst + kSteps - 1; a[r] points to step 0 of row r. A row is a chain of dependent
// instructions, so the rows take turns.
template <int kBound, size_t kFirst, size_t kSteps, size_t kRows>
HWY_INLINE void DotUnsigned(const int8_t* const (&a)[kRows], const VU8 (&w)[8], VI32 (&sums)[kRows]) {
  static_assert(kBound <= 255, "a byte");
  Unroll<kSteps>([&](auto i) MOONLIT_INLINE_LAMBDA {
    constexpr size_t s = kFirst + decltype(i)::value;
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA { sums[r] = Dpbusd(sums[r], w[s], a[r] + 4 * s); });
  });
}

#else

// May be named but not called.
constexpr bool kDotsUnsignedBySigned = false;
HWY_INLINE VI32 DotUnsignedBySigned(VI32 sum, VI32, VI8) { return sum; }

#endif

#if MOONLIT_HAS_VPDPBUSD512 || (MOONLIT_HAS_VPDPBUSD256 && HWY_MAX_BYTES == 32)
#elif HWY_TARGET_IS_NEON && MOONLIT_HAS_SDOT

// Rows take turns, because each is a chain of dependent instructions.
template <size_t kFirst, size_t kSteps, size_t kRows>
HWY_INLINE void DotSigned(const int8_t* const (&a)[kRows], const VI8 (&w)[8], VI32 (&sums)[kRows]) {
  static_assert(kSteps % 4 == 0, "four steps share one load of activations");
  Unroll<kSteps / 4>([&](auto q) MOONLIT_INLINE_LAMBDA {
    constexpr size_t base = kFirst + 4 * decltype(q)::value;
    int8x16_t four[kRows];
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA { four[r] = vld1q_s8(a[r] + 4 * base); });
    Unroll<kRows>([&](auto r)
                      MOONLIT_INLINE_LAMBDA { sums[r].raw = vdotq_laneq_s32(sums[r].raw, w[base].raw, four[r], 0); });
    Unroll<kRows>(
        [&](auto r) MOONLIT_INLINE_LAMBDA { sums[r].raw = vdotq_laneq_s32(sums[r].raw, w[base + 1].raw, four[r], 1); });
    Unroll<kRows>(
        [&](auto r) MOONLIT_INLINE_LAMBDA { sums[r].raw = vdotq_laneq_s32(sums[r].raw, w[base + 2].raw, four[r], 2); });
    Unroll<kRows>(
        [&](auto r) MOONLIT_INLINE_LAMBDA { sums[r].raw = vdotq_laneq_s32(sums[r].raw, w[base + 3].raw, four[r], 3); });
  });
}

#elif HWY_TARGET_IS_NEON

HWY_INLINE int32x4_t PairSums(int32x4_t low, int32x4_t high) {
#if HWY_ARCH_ARM_A64
  return vpaddq_s32(low, high);
#else
  return vcombine_s32(vpadd_s32(vget_low_s32(low), vget_high_s32(low)),
                      vpadd_s32(vget_low_s32(high), vget_high_s32(high)));
#endif
}

// Each int16 lane takes one product a step; after kRun steps the lanes are widened, so nothing wraps.
template <int kBound, size_t kFirst, size_t kSteps>
HWY_INLINE VI32 DotWidening(const int8_t* HWY_RESTRICT a, const VI8 (&w)[8], VI32 sum) {
  constexpr size_t kMost = StepsInInt16(kBound, 1);
  constexpr size_t kRun = kMost < kSteps ? kMost : kSteps;
  static_assert(kRun >= 1 && kSteps % kRun == 0, "runs must tile the steps");
  int32x4_t low = vdupq_n_s32(0), high = vdupq_n_s32(0);
  Unroll<kSteps / kRun>([&](auto run) MOONLIT_INLINE_LAMBDA {
    constexpr size_t base = kFirst + kRun * decltype(run)::value;
    int8x8_t four = vreinterpret_s8_s32(vdup_n_s32(LoadFour(a + 4 * base)));
    int16x8_t low16 = vmull_s8(vget_low_s8(w[base].raw), four);
    int16x8_t high16 = vmull_s8(vget_high_s8(w[base].raw), four);
    Unroll<kRun - 1>([&](auto i) MOONLIT_INLINE_LAMBDA {
      constexpr size_t s = base + 1 + decltype(i)::value;
      const int8x8_t next = vreinterpret_s8_s32(vdup_n_s32(LoadFour(a + 4 * s)));
      low16 = vmlal_s8(low16, vget_low_s8(w[s].raw), next);
      high16 = vmlal_s8(high16, vget_high_s8(w[s].raw), next);
    });
    if constexpr (decltype(run)::value == 0) {
      low = vpaddlq_s16(low16);
      high = vpaddlq_s16(high16);
    } else {
      low = vpadalq_s16(low, low16);
      high = vpadalq_s16(high, high16);
    }
  });
  return VI32(vaddq_s32(sum.raw, PairSums(low, high)));
}

template <size_t kFirst, size_t kSteps>
HWY_INLINE VI32 RowDotSigned(const int8_t* HWY_RESTRICT a, const VI8 (&w)[8], VI32 sum) {
  return DotWidening<128, kFirst, kSteps>(a, w, sum);
}

#elif HWY_TARGET <= HWY_SSSE3 && HWY_ARCH_X86

// Each int16 lane takes two products a step.
template <int kBound, size_t kFirst, size_t kSteps>
HWY_INLINE VI32 RowDotUnsigned(const int8_t* HWY_RESTRICT a, const VU8 (&w)[8], VI32 sum) {
  constexpr size_t kMost = StepsInInt16(kBound, 2);
  constexpr size_t kRun = kMost < kSteps ? kMost : kSteps;
  static_assert(kRun >= 1 && kSteps % kRun == 0, "runs must tile the steps");
  const DI16 di16;
  const DI32 di32;
  const VI16 ones = hn::Set(di16, 1);
  Unroll<kSteps / kRun>([&](auto run) MOONLIT_INLINE_LAMBDA {
    constexpr size_t base = kFirst + kRun * decltype(run)::value;
    VI16 sum16 = hn::SatWidenMulPairwiseAdd(di16, w[base], hn::BitCast(DI8(), hn::Set(di32, LoadFour(a + 4 * base))));
    Unroll<kRun - 1>([&](auto i) MOONLIT_INLINE_LAMBDA {
      constexpr size_t s = base + 1 + decltype(i)::value;
      const VI8 four = hn::BitCast(DI8(), hn::Set(di32, LoadFour(a + 4 * s)));
      sum16 = hn::Add(sum16, hn::SatWidenMulPairwiseAdd(di16, w[s], four));
    });
    sum = hn::Add(sum, hn::WidenMulPairwiseAdd(di32, sum16, ones));
  });
  return sum;
}

// Signs are moved from the weights to the activations: |w| <= 128 and |a| <= 127, so two products stay below 32767.
template <size_t kFirst, size_t kSteps>
HWY_INLINE VI32 RowDotSigned(const int8_t* HWY_RESTRICT a, const VI8 (&w)[8], VI32 sum) {
  const DI16 di16;
  const DI32 di32;
  const VI16 ones = hn::Set(di16, 1);
  Unroll<kSteps>([&](auto i) MOONLIT_INLINE_LAMBDA {
    constexpr size_t s = kFirst + decltype(i)::value;
    const VI8 four = hn::BitCast(DI8(), hn::Set(di32, LoadFour(a + 4 * s)));
    const VU8 magnitude = hn::BitCast(DU8(), hn::Abs(w[s]));
    const VI8 moved = hn::IfNegativeThenNegOrUndefIfZero(w[s], four);
    sum = hn::Add(sum, hn::WidenMulPairwiseAdd(di32, hn::SatWidenMulPairwiseAdd(di16, magnitude, moved), ones));
  });
  return sum;
}

#else

template <size_t kFirst, size_t kSteps>
HWY_INLINE VI32 RowDotSigned(const int8_t* HWY_RESTRICT a, const VI8 (&w)[8], VI32 sum) {
  HWY_ALIGN int32_t sums[kLanes];
  HWY_ALIGN int8_t weights[4 * kLanes];
  hn::Store(sum, DI32(), sums);
  for (size_t s = kFirst; s < kFirst + kSteps; ++s) {
    hn::Store(w[s], DI8(), weights);
    for (size_t i = 0; i < 4 * kLanes; ++i) {
      sums[i / 4] += static_cast<int32_t>(weights[i]) * a[4 * s + i % 4];
    }
  }
  return hn::Load(DI32(), sums);
}

#endif

// What is left to give every variant both functions, for any number of rows. Bytes of up to 127 are the same signed and
// unsigned.
#if MOONLIT_HAS_VPDPBUSD512 || (MOONLIT_HAS_VPDPBUSD256 && HWY_MAX_BYTES == 32)
#elif HWY_TARGET_IS_NEON && MOONLIT_HAS_SDOT
#define MOONLIT_UNSIGNED_IS_SIGNED 1
#else
template <size_t kFirst, size_t kSteps, size_t kRows>
HWY_INLINE void DotSigned(const int8_t* const (&a)[kRows], const VI8 (&w)[8], VI32 (&sums)[kRows]) {
  Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA { sums[r] = RowDotSigned<kFirst, kSteps>(a[r], w, sums[r]); });
}
#if HWY_TARGET <= HWY_SSSE3 && HWY_ARCH_X86
template <int kBound, size_t kFirst, size_t kSteps, size_t kRows>
HWY_INLINE void DotUnsigned(const int8_t* const (&a)[kRows], const VU8 (&w)[8], VI32 (&sums)[kRows]) {
  Unroll<kRows>([&](auto r)
                    MOONLIT_INLINE_LAMBDA { sums[r] = RowDotUnsigned<kBound, kFirst, kSteps>(a[r], w, sums[r]); });
}
#elif HWY_TARGET_IS_NEON
template <int kBound, size_t kFirst, size_t kSteps, size_t kRows>
HWY_INLINE void DotUnsigned(const int8_t* const (&a)[kRows], const VU8 (&w)[8], VI32 (&sums)[kRows]) {
  static_assert(kBound <= 127, "must be equal as a signed byte");
  VI8 s[8];
  Unroll<kSteps>([&](auto i) MOONLIT_INLINE_LAMBDA { s[kFirst + i] = hn::BitCast(DI8(), w[kFirst + i]); });
  Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA { sums[r] = DotWidening<kBound, kFirst, kSteps>(a[r], s, sums[r]); });
}
#else
#define MOONLIT_UNSIGNED_IS_SIGNED 1
#endif
#endif

#if MOONLIT_UNSIGNED_IS_SIGNED
template <int kBound, size_t kFirst, size_t kSteps, size_t kRows>
HWY_INLINE void DotUnsigned(const int8_t* const (&a)[kRows], const VU8 (&w)[8], VI32 (&sums)[kRows]) {
  static_assert(kBound <= 127, "must be equal as a signed byte");
  VI8 s[8];
  Unroll<kSteps>([&](auto i) MOONLIT_INLINE_LAMBDA { s[kFirst + i] = hn::BitCast(DI8(), w[kFirst + i]); });
  DotSigned<kFirst, kSteps>(a, s, sums);
}
#undef MOONLIT_UNSIGNED_IS_SIGNED
#endif

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
