// SPDX-License-Identifier: Apache-2.0
// Quantized caches: q . k and p . V by byte dots, exact in int32 within a tile.
//
//   K: q is quantized per 32 dims to +-127. A score is sum over d32 of (q scale * k scale) * int dot, d32 ascending.
//   V: p * (V's scale of the slot) is quantized per (row, tile, d32) to P = 0 .. 254 of its maximum. Where the instruction
//      multiplies unsigned by signed bytes, that is all. Elsewhere it wants bytes in +-127: P - 127 is stored, and 127 * (sum
//      of V over the tile), which all rows share, is added back. The sums are exact, so the bits are the same.
//
// Other dots multiply what is stored, w = value + zero point: 128 for Q8_0 where the instruction wants unsigned bytes, else
// 0; 8 for Q4_0. Each dot starts from the terms that take the zero point (and the 127) out again.
#pragma once

#include "kernels/attention/values-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// Eight steps (32 dims of K or 32 slots of V) of a vector of columns. `lanes`: first step; `pitch`: bytes between lane
// rows.
struct Q8Format {
  static constexpr bool kIsBytes = true;
  static constexpr size_t kElements = 4;
  static constexpr size_t kSteps = 1;  // in a row of lanes
  static constexpr int kZeroPoint = kBiasSignedWeights ? 128 : 0;
  template <size_t kCount>
  static HWY_INLINE void Load(const uint8_t* lanes, size_t pitch, VU8 (&w)[8]) {
    Unroll<kCount>([&](auto s) MOONLIT_INLINE_LAMBDA {
      const VU32 u = LoadLanes(lanes + s * pitch);
      w[s] = hn::BitCast(DU8(), kBiasSignedWeights ? hn::Xor(u, hn::Set(DU32(), 0x80808080u)) : u);
    });
  }
  static HWY_INLINE void LoadSigned(const uint8_t* lanes, VI8 (&w)[kSteps]) {
    w[0] = hn::BitCast(DI8(), LoadLanes(lanes));
  }
  template <size_t kCount, size_t kRows>
  static HWY_INLINE void Dot(const int8_t* const (&a)[kRows], const VU8 (&w)[8], VI32 (&sums)[kRows]) {
    if constexpr (kBiasSignedWeights) {
      DotUnsigned<255, 0, kCount>(a, w, sums);
    } else {
      VI8 s[8];
      Unroll<kCount>([&](auto i) MOONLIT_INLINE_LAMBDA { s[i] = hn::BitCast(DI8(), w[i]); });
      DotSigned<0, kCount>(a, s, sums);
    }
  }
};

struct Q4Format {
  static constexpr bool kIsBytes = true;
  static constexpr size_t kElements = 8;
  static constexpr size_t kSteps = 2;
  static constexpr int kZeroPoint = 8;
  template <size_t kCount>
  static HWY_INLINE void Load(const uint8_t* lanes, size_t pitch, VU8 (&w)[8]) {
    const VU32 nibble = hn::Set(DU32(), 0x0F0F0F0Fu);
    Unroll<kCount / 2>([&](auto s) MOONLIT_INLINE_LAMBDA {
      const VU32 u = LoadLanes(lanes + s * pitch);
      w[2 * s] = hn::BitCast(DU8(), hn::And(u, nibble));
      w[2 * s + 1] = hn::BitCast(DU8(), hn::And(hn::ShiftRight<4>(u), nibble));
    });
  }
  static HWY_INLINE void LoadSigned(const uint8_t* lanes, VI8 (&w)[kSteps]) {
    const VU32 nibble = hn::Set(DU32(), 0x0F0F0F0Fu);
    const VI8 zero_point = hn::Set(DI8(), kZeroPoint);
    const VU32 u = LoadLanes(lanes);
    w[0] = hn::Sub(hn::BitCast(DI8(), hn::And(u, nibble)), zero_point);
    w[1] = hn::Sub(hn::BitCast(DI8(), hn::And(hn::ShiftRight<4>(u), nibble)), zero_point);
  }
  template <size_t kCount, size_t kRows>
  static HWY_INLINE void Dot(const int8_t* const (&a)[kRows], const VU8 (&w)[8], VI32 (&sums)[kRows]) {
    DotUnsigned<15, 0, kCount>(a, w, sums);
  }
};

constexpr int32_t kRoundingShiftBits = 0x4B400000;  // of kRoundingShift

// `count` floats (at most 32) -> bytes in +-127; returns their sum. A group with an inf or a NaN gets scale NaN and bytes 0.
MOONLIT_INNER int32_t QuantizeGroup(const float* x, size_t count, int8_t* q, float* scale) {
  const DF32 df;
  const DI32 di32;
  const hn::Rebind<int8_t, DF32> di8;
  // Numbers without their signs are ordered as their bits are, infinities and NaN above all.
  VI32 largest_bits = hn::Zero(di32);
  for (size_t i = 0; i < count; i += kLanes) {
    largest_bits = hn::Max(largest_bits, hn::BitCast(di32, hn::Abs(hn::LoadN(df, x + i, count - i))));
  }
  const int32_t max_bits = hn::ReduceMax(di32, largest_bits);
  float largest;
  memcpy(&largest, &max_bits, sizeof(largest));
  const bool finite = max_bits < 0x7F800000;
  memset(q, 0, kScaleGroup);
  *scale = finite ? 0.0f : largest - largest;
  if (!finite || largest < 1e-30f) return 0;
  *scale = largest / 127.0f;
  const VF32 inverse = hn::Set(df, 127.0f / largest);
  VI32 sum = hn::Zero(di32);
  for (size_t i = 0; i < count; i += kLanes) {
    const VF32 scaled = hn::Mul(hn::LoadN(df, x + i, count - i), inverse);
    const VI32 code =
        hn::Sub(hn::BitCast(di32, hn::Add(scaled, hn::Set(df, kRoundingShift))), hn::Set(di32, kRoundingShiftBits));
    sum = hn::Add(sum, code);
    hn::StoreU(hn::DemoteTo(di8, code), di8, q + i);
  }
  return hn::ReduceSum(di32, sum);
}

template <class Format>
void PackQueriesOf(const AttentionArgs& args, Workspace& work) {
  const size_t key_dim = args.layout->key_dim;
  const size_t groups = CeilDiv(key_dim, kScaleGroup);
  for (size_t r = 0; r < args.rows; ++r) {
    for (size_t b = 0; b < groups; ++b) {
      const size_t left = key_dim - b * kScaleGroup;
      const int32_t sum = QuantizeGroup(args.q[r] + b * kScaleGroup, left < kScaleGroup ? left : kScaleGroup,
                                        work.q8 + (r * groups + b) * kScaleGroup, work.q8_scale + r * groups + b);
      work.q8_start[r * groups + b] = -Format::kZeroPoint * sum;
    }
  }
}

// `keys`, `scales`: of the tile. `groups`: d32. `lines`: to prefetch for each of them.
template <class Format, size_t kRows>
HWY_INLINE void ScoreByteVec(const uint8_t* keys, const uint8_t* scales, size_t groups, size_t vec, size_t row,
                             size_t lines, Workspace& work) {
  const DF32 df;
  constexpr size_t kLanesOfGroup = kScaleGroup / Format::kElements;
  const size_t token = vec * kLanes;
  const size_t group = token / kPageGroup;
  const size_t column = (group * groups * kLanesOfGroup * kPageGroup + token % kPageGroup) * 4;
  const uint8_t* scale = scales + (group * groups * kPageGroup + token % kPageGroup) * 2;
  VF32 sum[kRows];
  Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA { sum[r] = hn::Zero(df); });
  for (size_t b = 0; b < groups; ++b) {
    VU8 w[8];
    const size_t offset = column + b * kLanesOfGroup * kPageGroup * 4;
    Format::template Load<8>(keys + offset, kPageGroup * 4, w);
    PrefetchLines(lines, &work.ahead);
    const VF32 key_scale = LoadHalves(scale + b * kPageGroup * 2);
    const int8_t* q[kRows];
    VI32 dots[kRows];
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
      const size_t at = (row + r) * groups + b;
      q[r] = work.q8 + at * kScaleGroup;
      dots[r] = hn::Set(DI32(), work.q8_start[at]);
    });
    Format::template Dot<8>(q, w, dots);
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
      const VF32 scale = hn::Mul(key_scale, hn::Set(df, work.q8_scale[(row + r) * groups + b]));
      sum[r] = hn::MulAdd(hn::ConvertTo(df, dots[r]), scale, sum[r]);
    });
  }
  Unroll<kRows>([&](auto r)
                    MOONLIT_INLINE_LAMBDA { hn::Store(sum[r], df, work.scores + (row + r) * kTile + vec * kLanes); });
}

template <class Format>
void ScoreTileOf(const AttentionArgs& args, const TileView& view, const uint8_t* keys, const uint8_t* scales,
                 Workspace& work) {
  const size_t groups = CeilDiv(args.layout->key_dim, kScaleGroup);
  ForVisibleRuns(view, args.rows, [&](size_t row, size_t count) {
    size_t low = kTile, high = 0;
    for (size_t r = row; r < row + count; ++r) {
      low = view.low[r] < low ? view.low[r] : low;
      high = view.high[r] > high ? view.high[r] : high;
    }
    WithRows(count, [&](auto c) MOONLIT_INLINE_LAMBDA {
      for (size_t vec = low / kLanes; vec * kLanes < high; ++vec) {
        const size_t lines = row == 0 ? work.share.per_key_step : 0;
        ScoreByteVec<Format, decltype(c)::value>(keys, scales, groups, vec, row, lines, work);
      }
    });
  });
}

// Steps of a tile, in runs of at most eight.
constexpr size_t kTileSteps = kTile / 4;
constexpr size_t kRunSteps = kTileSteps < 8 ? kTileSteps : 8;
static_assert(kTileSteps % kRunSteps == 0);

template <class Format>
HWY_INLINE const uint8_t* ValueRun(const uint8_t* values, size_t dims, size_t run, size_t dim) {
  return values + (run * kRunSteps * 4 / Format::kElements * dims + dim) * 4;
}

// V's scales as f32, for all rows.
HWY_INLINE void WidenValueScales(const AttentionArgs& args, const TileView& view, const uint8_t* scales,
                                 Workspace& work) {
  const PageLayout& layout = *args.layout;
  const size_t slot = view.slot % layout.page_tokens;
  for (size_t b = 0; b < PaddedValueDim(layout) / kScaleGroup; ++b) {
    for (size_t t = 0; t < kTile; t += kLanes) {
      const VF32 s = LoadHalves(scales + (b * layout.page_tokens + slot + t) * 2);
      hn::Store(s, DF32(), work.v8_scale + b * kTile + t);
    }
  }
}

// 127 * (sum of the stored bytes of each dim over the tile), which all rows share.
template <class Format>
void SumByteValues(const AttentionArgs& args, const uint8_t* values, Workspace& work) {
  const size_t dims = PaddedValueDim(*args.layout);
  HWY_ALIGN int8_t full[32];
  memset(full, 127, sizeof(full));
  for (size_t dim = 0; dim < dims; dim += kLanes) {
    const int8_t* a[1] = {full};
    VI32 sum[1] = {hn::Zero(DI32())};
    for (size_t run = 0; run < kTileSteps / kRunSteps; ++run) {
      VU8 w[8];
      Format::template Load<kRunSteps>(ValueRun<Format>(values, dims, run, dim), dims * 4, w);
      PrefetchLines(work.share.per_value_step, &work.ahead);
      Format::template Dot<kRunSteps>(a, w, sum);
    }
    hn::Store(sum[0], DI32(), work.v8_start + dim);
  }
}

// Probabilities of one row times V's scales of one d32 group -> bytes, their scale and (where dots are signed) their start.
MOONLIT_INNER void QuantizeProbabilities(const float* p, const float* scales, size_t low, size_t high, int zero_point,
                                         int8_t* codes, float* scale, int32_t* start) {
  const DF32 df;
  const DI32 di32;
  const hn::Rebind<int8_t, DF32> di8;
  VF32 x[kTileVecs];
  ForTileVecs([&](auto v) MOONLIT_INLINE_LAMBDA {
    x[v] = hn::Mul(hn::Load(df, p + v * kLanes), hn::Load(df, scales + v * kLanes));
  });
  if (low != 0 || high != kTile) {  // an invisible slot's scale may be NaN
    const VF32 from = hn::Set(df, static_cast<float>(low));
    const VF32 to = hn::Set(df, static_cast<float>(high));
    ForTileVecs([&](auto v) MOONLIT_INLINE_LAMBDA {
      const VF32 j = hn::Iota(df, static_cast<float>(v * kLanes));
      x[v] = hn::IfThenElseZero(hn::And(hn::Ge(j, from), hn::Lt(j, to)), x[v]);
    });
  }
  // Numbers >= 0 and NaN are ordered as their bits are, so the maximum by bits does not lose a NaN.
  VI32 largest = hn::Zero(di32);
  ForTileVecs([&](auto v) MOONLIT_INLINE_LAMBDA { largest = hn::Max(largest, hn::BitCast(di32, hn::Abs(x[v]))); });
  const int32_t max_bits = hn::ReduceMax(di32, largest);
  float max;
  memcpy(&max, &max_bits, sizeof(max));
  const bool finite = max_bits < 0x7F800000;
  if (!finite || max < 1e-30f) {  // NaN for the outputs, or nothing to add
    *scale = finite ? 0.0f : max - max;
    *start = -zero_point * 127 * static_cast<int32_t>(kTile);
    memset(codes, 0, kTile);
    return;
  }
  const VF32 inverse = hn::Set(df, 254.0f / max);
  *scale = max * (1.0f / 254.0f);
  if constexpr (kDotsUnsignedBySigned) {
    const hn::Rebind<uint8_t, DF32> du8;
    ForTileVecs([&](auto v) MOONLIT_INLINE_LAMBDA {
      const VF32 shifted = hn::MulAdd(x[v], inverse, hn::Set(df, kRoundingShift));
      hn::StoreU(hn::TruncateTo(du8, hn::BitCast(DU32(), shifted)), du8,
                 reinterpret_cast<uint8_t*>(codes) + v * kLanes);
    });
    return;
  }
  VI32 sum_of_codes = hn::Zero(di32);
  ForTileVecs([&](auto v) MOONLIT_INLINE_LAMBDA {
    const VF32 shifted = hn::MulAdd(x[v], inverse, hn::Set(df, kRoundingShift));
    const VI32 code = hn::Sub(hn::BitCast(di32, shifted), hn::Set(di32, kRoundingShiftBits + 127));
    sum_of_codes = hn::Add(sum_of_codes, code);
    hn::StoreU(hn::DemoteTo(di8, code), di8, codes + v * kLanes);
  });
  *start = -zero_point * (hn::ReduceSum(di32, sum_of_codes) + 127 * static_cast<int32_t>(kTile));
}

template <class Format, size_t kRows>
HWY_INLINE void AddByteValues(const uint8_t* values, size_t dims, const Workspace& work, float* out,
                              size_t out_stride) {
  const DF32 df;
  const size_t groups = dims / kScaleGroup;
  for (size_t dim = 0; dim < dims; dim += kLanes) {
    const size_t b = dim / kScaleGroup;
    const VI32 shared = hn::Load(DI32(), work.v8_start + dim);
    VI32 sum[kRows];
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
      sum[r] = hn::Add(shared, hn::Set(DI32(), work.p8_start[r * groups + b]));
    });
    for (size_t run = 0; run < kTileSteps / kRunSteps; ++run) {
      VU8 w[8];
      Format::template Load<kRunSteps>(ValueRun<Format>(values, dims, run, dim), dims * 4, w);
      const int8_t* codes[kRows];
      Unroll<kRows>([&](auto r)
                        MOONLIT_INLINE_LAMBDA { codes[r] = work.p8 + (r * groups + b) * kTile + run * kRunSteps * 4; });
      Format::template Dot<kRunSteps>(codes, w, sum);
    }
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
      float* o = out + r * out_stride + dim;
      const VF32 scale = hn::Set(df, work.p8_scale[r * groups + b]);
      hn::Store(hn::MulAdd(hn::ConvertTo(df, sum[r]), scale, hn::Load(df, o)), df, o);
    });
  }
}

// The same by dots of unsigned P and signed V: kVecs vectors of dims share each P.
template <class Format, size_t kRows>
HWY_INLINE void AddByteValuesUnsigned(const uint8_t* values, size_t dims, size_t lines, Workspace& work, float* out,
                                      size_t out_stride) {
  constexpr size_t kVecs = 2;
  static_assert(kScaleGroup % (kVecs * kLanes) == 0 || !kDotsUnsignedBySigned, "one scale for all");
  const DF32 df;
  const size_t groups = dims / kScaleGroup;
  for (size_t dim = 0; dim < dims; dim += kVecs * kLanes) {
    const size_t b = dim / kScaleGroup;
    const int8_t* codes = work.p8 + b * kTile;
    VI32 sum[kRows][kVecs];
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
      Unroll<kVecs>([&](auto v) MOONLIT_INLINE_LAMBDA { sum[r][v] = hn::Zero(DI32()); });
    });
    for (size_t i = 0; i < kTileSteps / Format::kSteps; ++i) {
      VI8 w[kVecs][Format::kSteps];
      const size_t offset = (i * dims + dim) * 4;
      Unroll<kVecs>([&](auto v) MOONLIT_INLINE_LAMBDA { Format::LoadSigned(values + offset + v * kLanes * 4, w[v]); });
      PrefetchLines(lines, &work.ahead);
      Unroll<Format::kSteps>([&](auto s) MOONLIT_INLINE_LAMBDA {
        Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
          const VI32 p = hn::Set(DI32(), LoadFour(codes + r * groups * kTile + (i * Format::kSteps + s) * 4));
          Unroll<kVecs>([&](auto v) MOONLIT_INLINE_LAMBDA { sum[r][v] = DotUnsignedBySigned(sum[r][v], p, w[v][s]); });
        });
      });
    }
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
      const VF32 scale = hn::Set(df, work.p8_scale[r * groups + b]);
      Unroll<kVecs>([&](auto v) MOONLIT_INLINE_LAMBDA {
        float* o = out + r * out_stride + dim + v * kLanes;
        hn::Store(hn::MulAdd(hn::ConvertTo(df, sum[r][v]), scale, hn::Load(df, o)), df, o);
      });
    });
  }
}

template <class Format>
void AddTileOf(const AttentionArgs& args, const TileView& view, const uint8_t* values, const uint8_t* scales,
               Workspace& work, float* triples) {
  const size_t dims = PaddedValueDim(*args.layout);
  const size_t groups = dims / kScaleGroup;
  const size_t out_stride = AttentionTripleFloats(*args.layout);
  WidenValueScales(args, view, scales, work);
  if constexpr (!kDotsUnsignedBySigned) SumByteValues<Format>(args, values, work);
  ForVisibleRuns(view, args.rows, [&](size_t row, size_t count) {
    const size_t lines = row == 0 ? work.share.per_value_step : 0;
    for (size_t r = 0; r < count; ++r) {
      for (size_t b = 0; b < groups; ++b) {
        const size_t at = r * groups + b;
        PrefetchLines(work.share.per_probabilities, &work.ahead);
        QuantizeProbabilities(work.scores + (row + r) * kTile, work.v8_scale + b * kTile, view.low[row + r],
                              view.high[row + r], Format::kZeroPoint, work.p8 + at * kTile, work.p8_scale + at,
                              work.p8_start + at);
      }
    }
    WithRows(count, [&](auto c) MOONLIT_INLINE_LAMBDA {
      float* out = triples + row * out_stride + 16;
      if constexpr (kDotsUnsignedBySigned) {
        AddByteValuesUnsigned<Format, decltype(c)::value>(values, dims, lines, work, out, out_stride);
      } else {
        AddByteValues<Format, decltype(c)::value>(values, dims, work, out, out_stride);
      }
    });
  });
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
