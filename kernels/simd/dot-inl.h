// SPDX-License-Identifier: Apache-2.0
// Byte dot products by the best instruction that a variant has. This is the one place outside kernels/cpu where intrinsics
// may appear: everything else is written in Highway.
//
// A step is four consecutive k of one activation row (4 int8, the same for all lanes) against a vector of weights that holds
// four bytes of one output in each 32-bit lane. Eight steps are a block of 32 k. All results are exact in int32.
//
//   DotUnsigned<15, 0, 8>(a, w, sums);    // w[s] lane n: weights 4s .. 4s+3 of output n, each in 0 .. 15; sums[r] += a[r] * w
//   DotSigned<0, 8, 32>(a, w, sums);      // signed weights, of magnitude 32 or less
//
//   variant            instruction           what is summed in 16 bits
//   AVX-512 VNNI       vpdpbusd zmm          nothing
//   AVX-VNNI           vpdpbusd ymm (VEX)    nothing
//   AVX2, SSSE3, ...   pmaddubsw, pmaddwd    as many steps as cannot saturate, from the weights' bound
//   NEON dotprod       sdot by lane          nothing
//   NEON i8mm          the same, and smmla   nothing
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

#if HWY_ARCH_ARM_A64 && HWY_TARGET_IS_NEON
// v * lanes[kLane], and v * lanes[kLane] + sum rounded once: instructions that read one lane of a vector for all.
template <size_t kLane>
HWY_INLINE VF32 MulByLane(VF32 v, VF32 lanes) {
  return VF32(vmulq_laneq_f32(v.raw, lanes.raw, kLane));
}
template <size_t kLane>
HWY_INLINE VF32 MulAddByLane(VF32 v, VF32 lanes, VF32 sum) {
  return VF32(vfmaq_laneq_f32(sum.raw, v.raw, lanes.raw, kLane));
}
#endif

// Steps whose products of weights bounded by kBound fit one int16 lane that receives kPerStep of them a step.
constexpr size_t StepsInInt16(int bound, int per_step) { return static_cast<size_t>(32767 / (bound * 127 * per_step)); }

// One bound for all those for which the dot products below do the same as for `bound`, over a part of 32 k: 1 of 1, or 1 of 2.
constexpr int SameBound(int bound, [[maybe_unused]] bool is_signed, [[maybe_unused]] size_t parts) {
  int same = 128;
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3) || (HWY_TARGET_IS_NEON && !MOONLIT_HAS_SDOT)
  if (HWY_ARCH_X86 && is_signed) return same;
  const int per_step = HWY_ARCH_X86 || HWY_ARCH_ARM_A64 ? 2 : 1;
  const size_t steps = (HWY_ARCH_ARM_A64 ? 2 : 8) / parts;  // those of DotByOutput are sixteen k
  const auto run = [=](int most) {
    const size_t fit = StepsInInt16(most, per_step);
    return fit < steps ? fit : steps;
  };
  while (same > bound && run(same) != run(bound)) same /= 2;
#endif
  return same < bound ? bound : same;
}

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

#if MOONLIT_HAS_SMMLA
// Eight k of two rows times eight k of two outputs: lane 2i + j of the sum += a[8i .. 8i + 7] * w[8j .. 8j + 7].
HWY_INLINE VI32 Smmla(VI32 sum, VI8 a, VI8 w) { return VI32(vmmlaq_s32(sum.raw, a.raw, w.raw)); }
#endif

// Sixteen k of four rows. four[r] are row r's activations; where there are more they are replaced by the sixteen at next[r]. With
// kLoad the weights are read from memory too: w[0] is loaded already, w[1 .. 3] come from `weights` on, and w[4] if there are more.
//
// The order is this one and no other. A row's dot products are as far apart as four rows allow, and loads stand between them,
// where an in-order core (A53, A55) starts one with the other: a register is loaded anew right after its last use. GCC 12 by
// itself put all loads in front, and accumulators on the stack.
// clang-format off
#define MOONLIT_SDOT(r, lane, s) "sdot %" #r ".4s, %" #s ".16b, %" lane "\n\t"
#define MOONLIT_SDOT_ROWS(lane, s)                                            \
  MOONLIT_SDOT(0, "4.4b[" #lane "]", s) MOONLIT_SDOT(1, "5.4b[" #lane "]", s) \
  MOONLIT_SDOT(2, "6.4b[" #lane "]", s) MOONLIT_SDOT(3, "7.4b[" #lane "]", s)
#define MOONLIT_LOAD(s, from) "ldr %q" #s ", %" #from "\n\t"
#define MOONLIT_SDOT_LAST_ROWS(s, n0, n1, n2, n3)            \
  MOONLIT_SDOT(0, "4.4b[3]", s) MOONLIT_LOAD(4, n0)          \
  MOONLIT_SDOT(1, "5.4b[3]", s) MOONLIT_LOAD(5, n1)          \
  MOONLIT_SDOT(2, "6.4b[3]", s) MOONLIT_LOAD(6, n2)          \
  MOONLIT_SDOT(3, "7.4b[3]", s) MOONLIT_LOAD(7, n3)
#define MOONLIT_IN_OUT(x) "+&w"(x[0]), "+&w"(x[1]), "+&w"(x[2]), "+&w"(x[3])
template <bool kMore, bool kLoad>
HWY_INLINE void SdotSixteen(int8x16_t (&four)[4], const int8_t* const (&next)[4], const uint8_t* weights, int8x16_t* w,
                            int32x4_t (&sums)[4]) {
  typedef int8x16_t __attribute__((may_alias, aligned(1))) Sixteen;
  const auto at = [](const void* bytes) MOONLIT_INLINE_LAMBDA { return static_cast<const Sixteen*>(bytes); };
  if constexpr (kMore && kLoad) {
    asm(MOONLIT_LOAD(8, 13) MOONLIT_SDOT_ROWS(0, 12) MOONLIT_LOAD(9, 14) MOONLIT_SDOT_ROWS(1, 8)
        MOONLIT_LOAD(10, 15) MOONLIT_SDOT_ROWS(2, 9) MOONLIT_LOAD(11, 16)
        MOONLIT_SDOT_LAST_ROWS(10, 17, 18, 19, 20)
        : MOONLIT_IN_OUT(sums), MOONLIT_IN_OUT(four), "=&w"(w[1]), "=&w"(w[2]), "=&w"(w[3]), "=&w"(w[4])
        : "w"(w[0]), "m"(*at(weights)), "m"(*at(weights + 16)), "m"(*at(weights + 32)), "m"(*at(weights + 48)),
          "m"(*at(next[0])), "m"(*at(next[1])), "m"(*at(next[2])), "m"(*at(next[3])));
  } else if constexpr (kLoad) {
    asm(MOONLIT_LOAD(8, 12) MOONLIT_SDOT_ROWS(0, 11) MOONLIT_LOAD(9, 13) MOONLIT_SDOT_ROWS(1, 8)
        MOONLIT_LOAD(10, 14) MOONLIT_SDOT_ROWS(2, 9) MOONLIT_SDOT_ROWS(3, 10)
        : MOONLIT_IN_OUT(sums), MOONLIT_IN_OUT(four), "=&w"(w[1]), "=&w"(w[2]), "=&w"(w[3])
        : "w"(w[0]), "m"(*at(weights)), "m"(*at(weights + 16)), "m"(*at(weights + 32)));
  } else if constexpr (kMore) {
    asm(MOONLIT_SDOT_ROWS(0, 8) MOONLIT_SDOT_ROWS(1, 9) MOONLIT_SDOT_ROWS(2, 10)
        MOONLIT_SDOT_LAST_ROWS(11, 12, 13, 14, 15)
        : MOONLIT_IN_OUT(sums), MOONLIT_IN_OUT(four)
        : "w"(w[0]), "w"(w[1]), "w"(w[2]), "w"(w[3]), "m"(*at(next[0])), "m"(*at(next[1])), "m"(*at(next[2])),
          "m"(*at(next[3])));
  } else {
    asm(MOONLIT_SDOT_ROWS(0, 8) MOONLIT_SDOT_ROWS(1, 9) MOONLIT_SDOT_ROWS(2, 10) MOONLIT_SDOT_ROWS(3, 11)
        : MOONLIT_IN_OUT(sums)
        : "w"(four[0]), "w"(four[1]), "w"(four[2]), "w"(four[3]), "w"(w[0]), "w"(w[1]), "w"(w[2]), "w"(w[3]));
  }
}
#undef MOONLIT_IN_OUT
#undef MOONLIT_SDOT_LAST_ROWS
#undef MOONLIT_LOAD
#undef MOONLIT_SDOT_ROWS
#undef MOONLIT_SDOT
// clang-format on

// The sums of four rows; raw[kFirst .. kFirst + kSteps) are the weights, which with kLoad are first read from `weights`.
template <size_t kFirst, size_t kSteps, bool kLoad>
HWY_INLINE void DotFourRows(const int8_t* const (&a)[4], const uint8_t* weights, int8x16_t (&raw)[8], VI32 (&sums)[4]) {
  int8x16_t four[4];
  int32x4_t raw_sums[4];
  Unroll<4>([&](auto r) MOONLIT_INLINE_LAMBDA {
    four[r] = vld1q_s8(a[r] + 4 * kFirst);
    raw_sums[r] = sums[r].raw;
  });
  if constexpr (kLoad) raw[kFirst] = vld1q_s8(reinterpret_cast<const int8_t*>(weights + 16 * kFirst));
  Unroll<kSteps / 4>([&](auto i) MOONLIT_INLINE_LAMBDA {
    constexpr size_t s = kFirst + 4 * decltype(i)::value;
    constexpr size_t next = 4 * s + 16;
    SdotSixteen<(s + 4 < kFirst + kSteps), kLoad>(four, {a[0] + next, a[1] + next, a[2] + next, a[3] + next},
                                                  weights + 16 * (s + 1), raw + s, raw_sums);
  });
  Unroll<4>([&](auto r) MOONLIT_INLINE_LAMBDA { sums[r].raw = raw_sums[r]; });
}

// DotSigned for four rows with weights from memory, [8] vectors; they stay in w. Loading and multiplying take turns.
#define MOONLIT_HAS_LOAD_AND_DOT 1
template <size_t kFirst, size_t kSteps>
HWY_INLINE void LoadAndDotFourRows(const int8_t* const (&a)[4], const uint8_t* weights, VU8 (&w)[8], VI32 (&sums)[4]) {
  int8x16_t raw[8];
  DotFourRows<kFirst, kSteps, true>(a, weights, raw, sums);
  Unroll<kSteps>([&](auto s) MOONLIT_INLINE_LAMBDA { w[kFirst + s].raw = vreinterpretq_u8_s8(raw[kFirst + s]); });
}

// Rows take turns, because each is a chain of dependent instructions.
template <size_t kFirst, size_t kSteps, int kBound = 128, size_t kRows>
HWY_INLINE void DotSigned(const int8_t* const (&a)[kRows], const VI8 (&w)[8], VI32 (&sums)[kRows]) {
  static_assert(kSteps % 4 == 0, "four steps share one load of activations");
  if constexpr (kRows == 4) {
    int8x16_t raw[8];
    Unroll<kSteps>([&](auto s) MOONLIT_INLINE_LAMBDA { raw[kFirst + s] = w[kFirst + s].raw; });
    return DotFourRows<kFirst, kSteps, false>(a, nullptr, raw, sums);
  }
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

#if HWY_ARCH_ARM_A64
// Products with weights in another order: w[2n + h] holds sixteen consecutive k of output n, half h of 32. Nothing has to be
// repeated for four lanes then, and each int16 lane takes half as many products. sums[r] += halves [kHalf, kHalf + kHalves).
// Two rows at a time are eight chains: an in-order core waits four cycles for each link.
#define MOONLIT_HAS_DOT_BY_OUTPUT 1
template <int kBound, size_t kHalf, size_t kHalves, size_t kRows>
HWY_INLINE void DotByOutput(const int8_t* const* a, const VI8 (&w)[8], VI32* sums) {
  static_assert(StepsInInt16(kBound, 2) >= 1, "a lane takes two products before it is widened");
  constexpr bool kOneRun = StepsInInt16(kBound, 2) >= kHalves;
  int16x8_t narrow[4 * kRows];
  int32x4_t wide[4 * kRows];
  Unroll<kHalves>([&](auto half) MOONLIT_INLINE_LAMBDA {
    constexpr size_t h = kHalf + decltype(half)::value;
    int8x16_t sixteen[kRows];
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA { sixteen[r] = vld1q_s8(a[r] + 16 * h); });
    Unroll<4 * kRows>([&](auto i) MOONLIT_INLINE_LAMBDA {
      const int8x8_t of_output = vget_low_s8(w[2 * (i % 4) + h].raw), of_row = vget_low_s8(sixteen[i / 4]);
      narrow[i] = half == 0 || !kOneRun ? vmull_s8(of_output, of_row) : vmlal_s8(narrow[i], of_output, of_row);
    });
    Unroll<4 * kRows>([&](auto i) MOONLIT_INLINE_LAMBDA {
      narrow[i] = vmlal_high_s8(narrow[i], w[2 * (i % 4) + h].raw, sixteen[i / 4]);
    });
    if constexpr (!kOneRun || half + 1 == kHalves) {
      Unroll<4 * kRows>([&](auto i) MOONLIT_INLINE_LAMBDA {
        wide[i] = kOneRun || half == 0 ? vpaddlq_s16(narrow[i]) : vpadalq_s16(wide[i], narrow[i]);
      });
    }
  });
  Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
    const int32x4_t* of_row = wide + 4 * r;
    const int32x4_t sum = vpaddq_s32(vpaddq_s32(of_row[0], of_row[1]), vpaddq_s32(of_row[2], of_row[3]));
    sums[r] = VI32(vaddq_s32(sums[r].raw, sum));
  });
}
#endif

template <int kBound, size_t kFirst, size_t kSteps>
HWY_INLINE VI32 RowDotSigned(const int8_t* HWY_RESTRICT a, const VI8 (&w)[8], VI32 sum) {
  return DotWidening<kBound, kFirst, kSteps>(a, w, sum);
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
template <int kBound, size_t kFirst, size_t kSteps>
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

template <int kBound, size_t kFirst, size_t kSteps>
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
template <size_t kFirst, size_t kSteps, int kBound = 128, size_t kRows>
HWY_INLINE void DotSigned(const int8_t* const (&a)[kRows], const VI8 (&w)[8], VI32 (&sums)[kRows]) {
  Unroll<kRows>([&](auto r)
                    MOONLIT_INLINE_LAMBDA { sums[r] = RowDotSigned<kBound, kFirst, kSteps>(a[r], w, sums[r]); });
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
