// SPDX-License-Identifier: Apache-2.0
// Products by f32 arithmetic: the formats without blocks (F32, F16, BF16), whose tiles are [k][kTile], and the exact path of
// every other format (exact.cc), which decodes pieces of a tile to [k][kTile] floats. Both do acc = MulAdd(x, w, acc) with k
// ascending and one accumulator per output.
#pragma once

#include "kernels/matmul/halves-inl.h"
#include "kernels/matmul/layout-inl.h"
#include "kernels/matmul/store-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
constexpr size_t kFloatRows = 16;
#else
constexpr size_t kFloatRows = 4;
#endif
constexpr size_t kFloatTiles = 4;

struct LoadF32 {
  static constexpr size_t kBytes = 4;
  static HWY_INLINE VF32 At(const uint8_t* w, size_t i) {
    return hn::LoadU(DF32(), reinterpret_cast<const float*>(w) + i);
  }
};
struct LoadF16 {
  static constexpr size_t kBytes = 2;
  static HWY_INLINE VF32 At(const uint8_t* w, size_t i) { return LoadHalves(w + 2 * i); }
};
struct LoadBF16 {
  static constexpr size_t kBytes = 2;
  static HWY_INLINE VF32 At(const uint8_t* w, size_t i) {
    const hn::Rebind<uint16_t, DU32> du16;
    const VU32 bits = hn::PromoteTo(DU32(), hn::LoadU(du16, reinterpret_cast<const uint16_t*>(w) + i));
    return hn::BitCast(DF32(), hn::ShiftLeft<16>(bits));
  }
};

// sums[r][t * kTile + lane] += x[r][0 .. count) * w. Rows past `valid` repeat the last and their sums are scratch too.
template <class Load, size_t kRows, size_t kTiles>
HWY_NOINLINE void AddFloats(const float* const* x, const uint8_t* w, size_t tile_bytes, size_t count, float* sums,
                            size_t sums_stride) {
  const DF32 df;
  constexpr size_t kOuts = kTiles * kVectors;
  const float* rows[kRows];
  VF32 acc[kRows * kOuts];
  Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
    rows[r] = x[r];
    Unroll<kOuts>(
        [&](auto o) MOONLIT_INLINE_LAMBDA { acc[r * kOuts + o] = hn::LoadU(df, sums + r * sums_stride + o * kLanes); });
  });
  for (size_t k = 0; k < count; ++k) {
    Unroll<kOuts>([&](auto o) MOONLIT_INLINE_LAMBDA {
      constexpr size_t t = decltype(o)::value / kVectors;
      constexpr size_t v = decltype(o)::value % kVectors;
      const VF32 weights = Load::At(w + t * tile_bytes, k * kTile + v * kLanes);
      Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
        acc[r * kOuts + o] = hn::MulAdd(hn::Set(df, rows[r][k]), weights, acc[r * kOuts + o]);
      });
    });
  }
  Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
    Unroll<kOuts>(
        [&](auto o) MOONLIT_INLINE_LAMBDA { hn::StoreU(acc[r * kOuts + o], df, sums + r * sums_stride + o * kLanes); });
  });
}

// Up to kFloatRows rows; `sums` has room for the rounded-up number of rows.
template <class Load>
HWY_INLINE size_t AddFloatRows(const float* const* x, size_t left, const uint8_t* w, size_t count, float* sums) {
  if (kFloatRows >= 16 && left > 4) {
    AddFloats<Load, kFloatRows, 1>(x, w, 0, count, sums, kTile);
    return kFloatRows;
  }
  if (left > 1) {
    AddFloats<Load, 4, 1>(x, w, 0, count, sums, kTile);
    return 4;
  }
  AddFloats<Load, 1, 1>(x, w, 0, count, sums, kTile);
  return 1;
}

// Rows whose sums a task keeps on the stack; the exact path decodes a piece of a tile once for all of them.
constexpr size_t kStackRows = 64;

HWY_INLINE void PointToRows(const ProductArgs& args, size_t row, size_t count, const float** x) {
  for (size_t r = 0; r < kStackRows; ++r) x[r] = args.x + (row + (r < count ? r : count - 1)) * args.x_stride;
}

HWY_INLINE void StoreSums(const ProductArgs& args, size_t tile, size_t row, size_t count, const float* sums,
                          size_t stride) {
  for (size_t r = 0; r < count; ++r) {
    for (size_t v = 0; v < kVectors; ++v) {
      const size_t n = tile * kTile + v * kLanes;
      if (n < args.n) StoreVector(args, row + r, n, hn::LoadU(DF32(), sums + r * stride + v * kLanes));
    }
  }
}

template <class Load>
size_t FloatTileBytes(size_t k) {
  return RoundUp(k * kTile * Load::kBytes, 64);
}

template <class Load>
void MultiplyFloats(const ProductArgs& args) {
  const size_t tile_bytes = FloatTileBytes<Load>(args.k);
  HWY_ALIGN float sums[kStackRows * kTile];
  const float* x[kStackRows];
  size_t tile = args.tile_begin;
  if (args.rows == 1) {
    for (; tile + kFloatTiles <= args.tile_end; tile += kFloatTiles) {
      memset(sums, 0, kFloatTiles * kTile * sizeof(float));
      AddFloats<Load, 1, kFloatTiles>(&args.x, args.weights + tile * tile_bytes, tile_bytes, args.k, sums, 0);
      for (size_t t = 0; t < kFloatTiles; ++t) StoreSums(args, tile + t, 0, 1, sums + t * kTile, 0);
    }
  }
  for (size_t row = 0; row < args.rows; row += kStackRows) {
    const size_t count = args.rows - row < kStackRows ? args.rows - row : kStackRows;
    PointToRows(args, row, count, x);
    for (size_t t = tile; t < args.tile_end; ++t) {
      memset(sums, 0, sizeof(sums));
      for (size_t r = 0; r < count;) {
        r += AddFloatRows<Load>(x + r, count - r, args.weights + t * tile_bytes, args.k, sums + r * kTile);
      }
      StoreSums(args, t, row, count, sums, kTile);
    }
  }
}

// Transposes in pieces that stay in the first-level cache.
template <class Load>
void PackFloatTile(const uint8_t* rows, size_t row_stride, size_t valid, size_t k, uint8_t* tile) {
  constexpr size_t kPiece = 64;
  if (valid < kTile) memset(tile, 0, FloatTileBytes<Load>(k));
  constexpr size_t kSquare = 16 / Load::kBytes;
  size_t begin = 0;
  if (valid == kTile && kTile % kSquare == 0) {
    for (; begin + kSquare <= k; begin += kSquare) {
      for (size_t n = 0; n < kTile; n += kSquare) {
        const uint8_t* in = rows + n * row_stride + begin * Load::kBytes;
        uint8_t* out = tile + (begin * kTile + n) * Load::kBytes;
        if constexpr (Load::kBytes == 4) {
          TransposeWords(in, row_stride, out, kTile * Load::kBytes);
        } else {
          TransposeHalves(in, row_stride, out, kTile * Load::kBytes);
        }
      }
    }
  }
  for (; begin < k; begin += kPiece) {
    const size_t end = begin + kPiece < k ? begin + kPiece : k;
    for (size_t n = 0; n < valid; ++n) {
      for (size_t i = begin; i < end; ++i) {
        CopyBytes<Load::kBytes>(tile + (i * kTile + n) * Load::kBytes, rows + n * row_stride + i * Load::kBytes);
      }
    }
  }
  const size_t used = k * kTile * Load::kBytes;
  memset(tile + used, 0, FloatTileBytes<Load>(k) - used);
}

template <class Load, Format kFormat>
void UnpackFloatRow(const uint8_t* tile, size_t row, size_t k, float* values) {
  constexpr size_t kPiece = 256;
  uint8_t file[kPiece * Load::kBytes];
  const auto dequantize = Traits(kFormat).dequantize;
  for (size_t begin = 0; begin < k; begin += kPiece) {
    const size_t count = k - begin < kPiece ? k - begin : kPiece;
    for (size_t i = 0; i < count; ++i) {
      CopyBytes<Load::kBytes>(file + i * Load::kBytes, tile + ((begin + i) * kTile + row) * Load::kBytes);
    }
    dequantize(file, values + begin, count);
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
