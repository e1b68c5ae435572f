// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/variant-inl.h"
#include "kernels/peak/peak.h"
#include "kernels/simd/bf16_dot-inl.h"
#include "kernels/simd/dot-inl.h"
#include "kernels/simd/unroll-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

static_assert(4 * kLanes <= 64, "PeakInput's rows hold one vector");

using DU64 = hn::ScalableTag<uint64_t>;
using VU64 = hn::Vec<DU64>;

// Bytes: an instruction that adds to its accumulator can't be shared between repeats, so one step over and over is enough;
// the others work on the eight steps of a block, whose 16-bit sums are widened once, as in the products. A multiply-add takes
// four or five cycles and cores start up to two a cycle, so twelve chains keep every core busy.
#if MOONLIT_HAS_VPDPBUSD512
constexpr char kInt8Name[] = "vpdpbusd zmm";
constexpr size_t kInt8Rows = 12, kInt8Steps = 1, kInt8Repeats = 8;
#elif MOONLIT_HAS_VPDPBUSD256 && HWY_MAX_BYTES == 32
constexpr char kInt8Name[] = "vpdpbusd ymm";
constexpr size_t kInt8Rows = 12, kInt8Steps = 1, kInt8Repeats = 8;
#elif HWY_TARGET_IS_NEON && MOONLIT_HAS_SDOT
constexpr char kInt8Name[] = "sdot by lane";
constexpr size_t kInt8Rows = 12, kInt8Steps = 4, kInt8Repeats = 2;
#else
#if HWY_TARGET_IS_NEON
constexpr char kInt8Name[] = "smull, smlal, sadalp";
#elif HWY_TARGET <= HWY_SSSE3 && HWY_ARCH_X86
constexpr char kInt8Name[] = "pmaddubsw, pmaddwd";
#else
constexpr char kInt8Name[] = "loops";
#endif
constexpr size_t kInt8Rows = 4, kInt8Steps = 8, kInt8Repeats = 1;
#endif

constexpr size_t kRows = 2, kColumns = 6;
static_assert(kRows * kColumns == kPeakRows && kColumns == kPeakColumns && kInt8Rows <= kPeakRows);

// Without a fused instruction the product of a repeat would be the same and computed once.
#if HWY_NATIVE_FMA
constexpr char kF32Name[] = "fused multiply-add";
constexpr size_t kF32Repeats = 8;
#else
constexpr char kF32Name[] = "multiply, add";
constexpr size_t kF32Repeats = 1;
#endif
constexpr size_t kBF16Repeats = 8;

template <class D, size_t kCount>
double SumLanes(D d, const hn::Vec<D> (&vectors)[kCount]) {
  double total = 0.0;
  HWY_ALIGN hn::TFromD<D> lanes[kLanes];
  for (const hn::Vec<D>& v : vectors) {
    hn::Store(v, d, lanes);
    for (size_t i = 0; i < kLanes; ++i) total += static_cast<double>(lanes[i]);
  }
  return total;
}

double Int8Dots(const PeakInput& in, size_t rounds) {
  const DU8 du8;
  const int8_t* a[kInt8Rows];
  VI32 sums[kInt8Rows];
  Unroll<kInt8Rows>([&](auto r) MOONLIT_INLINE_LAMBDA {
    a[r] = in.a8[r];
    sums[r] = hn::Zero(DI32());
  });
  VU8 w = hn::Load(du8, in.w8[0]);
  const VU8 flip = hn::Xor(w, hn::Load(du8, in.w8[1]));
  for (size_t i = 0; i < rounds; ++i) {
    const VU8 steps[8] = {w, w, w, w, w, w, w, w};
    Unroll<kInt8Repeats>([&](auto) MOONLIT_INLINE_LAMBDA { DotUnsigned<15, 0, kInt8Steps>(a, steps, sums); });
    w = hn::Xor(w, flip);
  }
  return SumLanes(DI32(), sums);
}

// Pairs of bf16 or floats, both as 32-bit lanes: `multiply_add(sum, a, b)`.
template <size_t kRepeats, class MultiplyAdd>
HWY_INLINE double FloatDots(const void* a_first, const void* a_second, const void* b_rows, size_t rounds,
                            MultiplyAdd&& multiply_add) {
  const DU32 du32;
  const uint32_t* first = static_cast<const uint32_t*>(a_first);
  const uint32_t* second = static_cast<const uint32_t*>(a_second);
  const uint32_t* columns = static_cast<const uint32_t*>(b_rows);
  VU32 a[kRows], flip[kRows], b[kColumns];
  VF32 sums[kRows * kColumns];
  Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
    a[r] = hn::Load(du32, first + 16 * r);
    flip[r] = hn::Xor(a[r], hn::Load(du32, second + 16 * r));
  });
  Unroll<kColumns>([&](auto c) MOONLIT_INLINE_LAMBDA { b[c] = hn::Load(du32, columns + 16 * c); });
  Unroll<kRows * kColumns>([&](auto i) MOONLIT_INLINE_LAMBDA { sums[i] = hn::Zero(DF32()); });
  for (size_t i = 0; i < rounds; ++i) {
    Unroll<kRepeats>([&](auto) MOONLIT_INLINE_LAMBDA {
      Unroll<kRows * kColumns>(
          [&](auto s) MOONLIT_INLINE_LAMBDA { sums[s] = multiply_add(sums[s], a[s / kColumns], b[s % kColumns]); });
    });
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA { a[r] = hn::Xor(a[r], flip[r]); });
  }
  return SumLanes(DF32(), sums);
}

double BF16Dots(const PeakInput& in, size_t rounds) {
  return FloatDots<kBF16Repeats>(in.a16[0], in.a16[1], in.b16, rounds,
                                 [](VF32 sum, VU32 a, VU32 b)
                                     MOONLIT_INLINE_LAMBDA { return DotBF16Pairs(sum, a, b); });
}

double F32Dots(const PeakInput& in, size_t rounds) {
  const DF32 df32;
  return FloatDots<kF32Repeats>(in.a32[0], in.a32[1], in.b32, rounds,
                                [&](VF32 sum, VU32 a, VU32 b) MOONLIT_INLINE_LAMBDA {
                                  return hn::MulAdd(hn::BitCast(df32, a), hn::BitCast(df32, b), sum);
                                });
}

template <size_t kStreams>
uint64_t ReadParts(const uint8_t* data, size_t bytes) {
  const DU64 du64;
  constexpr size_t kVectorBytes = 4 * kLanes;
  const size_t part = bytes / kStreams;
  VU64 sums[kStreams];
  Unroll<kStreams>([&](auto s) MOONLIT_INLINE_LAMBDA { sums[s] = hn::Zero(du64); });
  for (size_t at = 0; at < part; at += kReadUnit) {
    Unroll<kStreams>([&](auto s) MOONLIT_INLINE_LAMBDA {
      const uint8_t* from = data + s * part + at;
      auto load = [&](size_t i) MOONLIT_INLINE_LAMBDA {
        return hn::Load(du64, reinterpret_cast<const uint64_t*>(from + i * kVectorBytes));
      };
      Unroll<kReadUnit / (4 * kVectorBytes)>([&](auto q) MOONLIT_INLINE_LAMBDA {
        const VU64 low = hn::Add(load(4 * q), load(4 * q + 1));
        const VU64 high = hn::Add(load(4 * q + 2), load(4 * q + 3));
        sums[s] = hn::Add(sums[s], hn::Add(low, high));
      });
    });
  }
  uint64_t total = 0;
  HWY_ALIGN uint64_t lanes[kLanes / 2];
  for (const VU64& sum : sums) {
    hn::Store(sum, du64, lanes);
    for (uint64_t lane : lanes) total += lane;
  }
  return total;
}

uint64_t Read(const uint8_t* data, size_t bytes, size_t streams) {
  switch (streams) {
    case 1:
      return ReadParts<1>(data, bytes);
    case 2:
      return ReadParts<2>(data, bytes);
    case 4:
      return ReadParts<4>(data, bytes);
    default:
      return ReadParts<8>(data, bytes);
  }
}

}  // namespace

extern const PeakTable kPeakTable;
const PeakTable kPeakTable = {
    {kInt8Name, kLanes, kInt8Rows, 1, 4 * kInt8Steps, kInt8Repeats, &Int8Dots},
    {HWY_ARCH_X86 ? "vdpbf16ps zmm" : "bfdot", kLanes, kRows, kColumns, 2, kBF16Repeats,
     kHasBF16Dot ? &BF16Dots : nullptr},
    {kF32Name, kLanes, kRows, kColumns, 1, kF32Repeats, &F32Dots},
    &Read,
};

}  // namespace MOONLIT_NS
}  // namespace moonlit
