// SPDX-License-Identifier: Apache-2.0
// One 32-bit lane of K or V against one broadcast word (or two): how each unquantized cache type multiplies.
//
// A format has
//   kElements   elements in a lane: dims of K, tokens of V
//   kWords      words of the broadcast operand that a lane meets: kElements floats, or one pair of bf16
//   Load        a vector of lanes -> operand
//   Broadcast   words -> the same for all lanes
//   Add         sum + operand * broadcast, elements ascending, one accumulator
//   Probabilities  where the softmax left what the values are multiplied by
//   AddOne      the same for one element only, whatever the others hold (they may be NaN)
#pragma once

#include "kernels/attention/workspace-inl.h"
#include "kernels/simd/f16-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

HWY_INLINE VU32 LoadLanes(const uint8_t* lanes) { return hn::LoadU(DU32(), reinterpret_cast<const uint32_t*>(lanes)); }

// Words are written as floats, as pairs of 16-bit numbers or as they are.
template <class T>
HWY_INLINE T LoadWord(const uint32_t* word) {
  static_assert(sizeof(T) == 4);
  T value;
  memcpy(&value, word, sizeof(value));
  return value;
}

struct F32Format {
  static constexpr bool kIsBytes = false;
  static constexpr size_t kElements = 1;
  static constexpr size_t kWords = 1;
  struct Operand {
    VF32 v0;
  };
  using Words = Operand;
  static MOONLIT_INNER Operand Load(const uint8_t* lanes) { return {hn::BitCast(DF32(), LoadLanes(lanes))}; }
  static HWY_INLINE Words Broadcast(const uint32_t* words) { return {hn::Set(DF32(), LoadWord<float>(words))}; }
  static HWY_INLINE const void* Probabilities(const Workspace& work) { return work.scores; }
  static MOONLIT_INNER VF32 Add(VF32 sum, const Operand& a, const Words& b) { return hn::MulAdd(a.v0, b.v0, sum); }
  static MOONLIT_INNER VF32 AddOne(VF32 sum, const uint8_t* lanes, const uint32_t* words, size_t) {
    return Add(sum, Load(lanes), Broadcast(words));
  }
};

// Two elements widened to f32.
template <class Widen>
struct PairFormat {
  static constexpr bool kIsBytes = false;
  static constexpr size_t kElements = 2;
  static constexpr size_t kWords = 2;
  struct Operand {
    VF32 v0, v1;
  };
  using Words = Operand;
  static MOONLIT_INNER Operand Load(const uint8_t* lanes) {
    const VU32 u = LoadLanes(lanes);
    return {Widen::Low(u), Widen::High(u)};
  }
  static HWY_INLINE Words Broadcast(const uint32_t* words) {
    return {hn::Set(DF32(), LoadWord<float>(words)), hn::Set(DF32(), LoadWord<float>(words + 1))};
  }
  static HWY_INLINE const void* Probabilities(const Workspace& work) { return work.scores; }
  static MOONLIT_INNER VF32 Add(VF32 sum, const Operand& a, const Words& b) {
    return hn::MulAdd(a.v1, b.v1, hn::MulAdd(a.v0, b.v0, sum));
  }
  static MOONLIT_INNER VF32 AddOne(VF32 sum, const uint8_t* lanes, const uint32_t* words, size_t element) {
    const Operand a = Load(lanes);
    const Words b = Broadcast(words);
    return element == 0 ? hn::MulAdd(a.v0, b.v0, sum) : hn::MulAdd(a.v1, b.v1, sum);
  }
};

struct WidenBF16 {
  static HWY_INLINE VF32 Low(VU32 u) { return hn::BitCast(DF32(), hn::ShiftLeft<16>(u)); }
  static HWY_INLINE VF32 High(VU32 u) { return hn::BitCast(DF32(), hn::And(u, hn::Set(DU32(), 0xFFFF0000u))); }
};

struct WidenF16 {
  static HWY_INLINE VF32 Low(VU32 u) { return F32FromLowF16(u); }
  static HWY_INLINE VF32 High(VU32 u) { return F32FromLowF16(hn::ShiftRight<16>(u)); }
};

using F16Format = PairFormat<WidenF16>;
using WidenedBF16Format = PairFormat<WidenBF16>;

struct BF16DotFormat {
  static constexpr bool kIsBytes = false;
  static constexpr size_t kElements = 2;
  static constexpr size_t kWords = 1;
  struct Operand {
    VU32 v0;
  };
  using Words = Operand;
  static MOONLIT_INNER Operand Load(const uint8_t* lanes) { return {LoadLanes(lanes)}; }
  static HWY_INLINE Words Broadcast(const uint32_t* words) { return {hn::Set(DU32(), LoadWord<uint32_t>(words))}; }
  static HWY_INLINE const void* Probabilities(const Workspace& work) { return work.p16; }
  static MOONLIT_INNER VF32 Add(VF32 sum, const Operand& a, const Words& b) { return DotBF16Pairs(sum, a.v0, b.v0); }
  static MOONLIT_INNER VF32 AddOne(VF32 sum, const uint8_t* lanes, const uint32_t* words, size_t element) {
    const VU32 one = hn::Set(DU32(), element == 0 ? 0x0000FFFFu : 0xFFFF0000u);
    return DotBF16Pairs(sum, hn::And(LoadLanes(lanes), one), hn::And(Broadcast(words).v0, one));
  }
};

// `lanes` lane vectors of 16-bit pairs, [lanes][16] or any other count of columns, as f32: row i becomes rows 2i, 2i +
// 1.
template <class Format>
void WidenLanes(const uint8_t* from, size_t rows, size_t columns, uint8_t* to) {
  for (size_t i = 0; i < rows; ++i) {
    float* even = reinterpret_cast<float*>(to) + 2 * i * columns;
    for (size_t c = 0; c < columns; c += kLanes) {
      const typename Format::Operand pair = Format::Load(from + (i * columns + c) * 4);
      hn::StoreU(pair.v0, DF32(), even + c);
      hn::StoreU(pair.v1, DF32(), even + columns + c);
    }
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
