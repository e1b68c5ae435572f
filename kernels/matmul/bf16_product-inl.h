// SPDX-License-Identifier: Apache-2.0
// Products with F16 and BF16 weights where the variant has vdpbf16ps or bfdot, which do twice the arithmetic of f32. Activations
// are rounded to bf16; F16 weights too, in registers. A tile is [pairs][kTile][2]: two consecutive k lie together, a last odd k
// beside a zero. One accumulator per output meets its pairs in ascending order:
//   acc = DotBF16Pairs(acc, {x[2i], x[2i + 1]}, {w[2i], w[2i + 1]})
// multiply_exact goes by f32 on the unrounded values. One Zen 4 core, 512 rows of 2048: F16 170 GFLOPS, 72% of the bf16 peak;
// by f32 it was 88.
#pragma once

#include "kernels/matmul/float_product-inl.h"
#include "kernels/matmul/products-inl.h"
#include "kernels/simd/bf16_dot-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// Sixteen (kLanes) pairs as the dot product takes them.
struct PairsOfBF16 {
  static constexpr Format kFormat = Format::kBF16;
  static HWY_INLINE VU32 At(const uint8_t* w) { return hn::LoadU(DU32(), reinterpret_cast<const uint32_t*>(w)); }
};
struct PairsOfF16 {
  static constexpr Format kFormat = Format::kF16;
  static HWY_INLINE VU32 At(const uint8_t* w) { return BF16PairsOfHalves(w); }
};

// Rows of a pass.
constexpr size_t kPairRows = HWY_ARCH_X86 ? kFloatRows : 8;

constexpr size_t Pairs(size_t k) { return (k + 1) / 2; }

template <class Weights>
size_t PairTileBytes(size_t k) {
  return RoundUp(Pairs(k) * kTile * 4, 64);
}

template <class Weights>
void PackPairTile(const uint8_t* rows, size_t row_stride, size_t valid, size_t k, uint8_t* tile) {
  const size_t whole = k / 2;
  const size_t used = Pairs(k) * kTile * 4;
  if (valid < kTile || k % 2 != 0) memset(tile, 0, used);
  PackField<FieldKind::kWord>(rows, row_stride, valid, whole, tile);
  for (size_t n = 0; k % 2 != 0 && n < valid; ++n) {
    CopyBytes<2>(tile + (whole * kTile + n) * 4, rows + n * row_stride + 4 * whole);
  }
  memset(tile + used, 0, PairTileBytes<Weights>(k) - used);
}

template <class Weights>
void UnpackPairRange(const uint8_t* tile, size_t n, size_t k_begin, size_t count, float* values) {
  constexpr size_t kPiece = 256;
  uint8_t file[kPiece * 2];
  const auto dequantize = Traits(Weights::kFormat).dequantize;
  for (size_t begin = 0; begin < count; begin += kPiece) {
    const size_t some = count - begin < kPiece ? count - begin : kPiece;
    for (size_t i = 0; i < some; ++i) {
      const size_t k = k_begin + begin + i;
      CopyBytes<2>(file + 2 * i, tile + (k / 2 * kTile + n) * 4 + k % 2 * 2);
    }
    dequantize(file, values + begin, some);
  }
}

template <class Weights>
void UnpackPairRow(const uint8_t* tile, size_t row, size_t k, float* values) {
  UnpackPairRange<Weights>(tile, row, 0, k, values);
}

// `count` values of up to kRows rows as bf16 pairs, [Pairs(count)][kRows] words; rows past `rows` are zeros. There is room for a
// whole number of squares of four pairs.
template <size_t kRows, size_t kPiece>
HWY_INLINE void PackPairRows(const float* x, size_t x_stride, size_t rows, size_t count, uint32_t* packed) {
  static_assert(kPiece % 8 == 0, "whole squares of pairs");
  HWY_ALIGN uint16_t rounded[kRows][kPiece];
  HWY_ALIGN float last[kLanes];
  for (size_t r = 0; r < rows; ++r) {
    const float* row = x + r * x_stride;
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) StoreAsBF16(hn::LoadU(DF32(), row + i), rounded[r] + i);
    if (i < count) {
      memset(last, 0, sizeof(last));
      memcpy(last, row + i, (count - i) * sizeof(float));
      StoreAsBF16(hn::Load(DF32(), last), rounded[r] + i);
    }
  }
  for (size_t r = rows; r < kRows; ++r) memset(rounded[r], 0, sizeof(rounded[r]));
  if constexpr (kRows == 1) {
    memcpy(packed, rounded, Pairs(count) * 4);
    return;
  }
  for (size_t r = 0; r + 4 <= kRows; r += 4) {
    for (size_t i = 0; i < Pairs(count); i += 4) {
      TransposeWords(reinterpret_cast<const uint8_t*>(rounded[r] + 2 * i), sizeof(rounded[0]),
                     reinterpret_cast<uint8_t*>(packed + i * kRows + r), 4 * kRows);
    }
  }
}

// sums[r][0 .. kTile) += packed rows * one tile's pairs. kAheadBytes: how far ahead weights are asked for; 0: not at all.
template <class Weights, size_t kRows, size_t kAheadBytes>
HWY_NOINLINE void AddPairs(const uint32_t* packed, const uint8_t* w, size_t pairs, float* sums) {
  const DF32 df;
  VF32 acc[kRows * kVectors];
  Unroll<kRows * kVectors>([&](auto i) MOONLIT_INLINE_LAMBDA { acc[i] = hn::LoadU(df, sums + i * kLanes); });
  for (size_t p = 0; p < pairs; ++p, w += kTile * 4, packed += kRows) {
    if constexpr (kAheadBytes != 0) __builtin_prefetch(w + kAheadBytes, 0, 2);
    Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA {
      const VU32 weights = Weights::At(w + v * kLanes * 4);
      Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
        VF32& sum = acc[r * kVectors + v];
#if MOONLIT_HAS_BFDOT
        if constexpr (kRows % 4 == 0) {
          sum = DotBF16PairOfLane<r % 4>(sum, hn::LoadU(DU32(), packed + r / 4 * 4), weights);
          return;
        }
#endif
        sum = DotBF16Pairs(sum, hn::Set(DU32(), packed[r]), weights);
      });
    });
  }
  Unroll<kRows * kVectors>([&](auto i) MOONLIT_INLINE_LAMBDA { hn::StoreU(acc[i], df, sums + i * kLanes); });
}

// Up to kRows rows: a piece of K is rounded once for a group of tiles, each of which then is one stream of memory.
template <class Weights, size_t kRows>
HWY_NOINLINE void MultiplyFewPairs(const ProductArgs& args) {
  constexpr size_t kPiece = kRows > 4 ? 512 : 2048, kGroup = 16;
  constexpr size_t kAheadBytes = kRows == 1 ? 1024 : 8192;  // as PrefetchAhead in bytes_product-inl.h
  const size_t tile_bytes = PairTileBytes<Weights>(args.k);
  HWY_ALIGN float sums[kGroup * kRows * kTile];
  HWY_ALIGN uint32_t packed[kRows * kPiece / 2];
  for (size_t first = args.tile_begin; first < args.tile_end; first += kGroup) {
    const size_t tiles = args.tile_end - first < kGroup ? args.tile_end - first : kGroup;
    memset(sums, 0, sizeof(sums));
    for (size_t begin = 0; begin < args.k; begin += kPiece) {
      const size_t piece = args.k - begin < kPiece ? args.k - begin : kPiece;
      PackPairRows<kRows, kPiece>(args.x + begin, args.x_stride, args.rows, piece, packed);
      for (size_t t = 0; t < tiles; ++t) {
        const uint8_t* w = args.weights + (first + t) * tile_bytes + begin / 2 * kTile * 4;
        AddPairs<Weights, kRows, kAheadBytes>(packed, w, Pairs(piece), sums + t * kRows * kTile);
      }
    }
    for (size_t t = 0; t < tiles; ++t) StoreSums(args, first + t, 0, args.rows, sums + t * kRows * kTile, kTile);
  }
}

// F16 weights are rounded once where more than one pass needs them. What the tile's next piece begins with is asked for meanwhile.
template <class Weights>
struct InPairs {
  static constexpr size_t kRows = kPairRows, kPiece = 128, kBytes = 2;
  using Word = uint32_t;
  static constexpr size_t kWords = kPiece / 2;
  static HWY_INLINE void Pack(const float* x, size_t stride, size_t rows, size_t k, uint32_t* out) {
    PackPairRows<kRows, kPiece>(x, stride, rows, k, out);
  }
  static HWY_INLINE void Add(const uint32_t* packed, size_t count, const uint8_t* w, size_t k, float* sums) {
    constexpr size_t kPieceBytes = kPiece * kTile * kBytes;
    if (count <= kRows) {
      AddPairs<Weights, kRows, kPieceBytes>(packed, w, Pairs(k), sums);
      return;
    }
    HWY_ALIGN uint32_t rounded[kWords * kTile];
    for (size_t i = 0; i < Pairs(k) * kTile; i += kLanes) {
      __builtin_prefetch(w + kPieceBytes + 4 * i, 0, 2);
      hn::Store(Weights::At(w + 4 * i), DU32(), rounded + i);
    }
    for (size_t r = 0; r < count; r += kRows) {
      AddPairs<PairsOfBF16, kRows, 0>(packed + r * kWords, reinterpret_cast<const uint8_t*>(rounded), Pairs(k),
                                      sums + r * kTile);
    }
  }
};

template <class Weights>
void MultiplyPairs(const ProductArgs& args) {
  if (args.rows == 1) return MultiplyFewPairs<Weights, 1>(args);
  if (args.rows <= 4) return MultiplyFewPairs<Weights, 4>(args);
  if (args.rows <= 8) return MultiplyFewPairs<Weights, 8>(args);
  MultiplyInPieces<InPairs<Weights>>(args, PairTileBytes<Weights>(args.k));
}

template <class Weights>
void MultiplyPairsExact(const ProductArgs& args) {
  MOONLIT_FLOATS_NS::MultiplyDecoded(args, PairTileBytes<Weights>(args.k), UnpackPairRange<Weights>);
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
