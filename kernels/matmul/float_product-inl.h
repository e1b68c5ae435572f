// SPDX-License-Identifier: Apache-2.0
// Products by f32 arithmetic: the formats without blocks (F32, F16, BF16), whose tiles are [k][kTile], and the exact path of
// every other format (exact.cc), which decodes pieces of a tile to [k][kTile] floats. Both do acc = MulAdd(x, w, acc) with k
// ascending and one accumulator per output.
#pragma once

#include "kernels/simd/f16-inl.h"
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

// Activations of up to kFloatRows rows for a piece of K, as [count][kFloatRows] floats: row r's value k is at k * kFloatRows + r.
// Read in place, rows that lie a power of two apart share a set of the first-level cache and drive each other out (Zen 4, F16
// weights, 512 rows of 2048: 36% of the f32 peak instead of 70%). Rows past `rows` that AddPackedRows computes become zeros.
HWY_INLINE void PackRows(const float* x, size_t x_stride, size_t rows, size_t count, float* packed) {
  size_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const uint8_t* in = reinterpret_cast<const uint8_t*>(x + r * x_stride);
    size_t k = 0;
    for (; k + 4 <= count; k += 4) {
      TransposeWords(in + 4 * k, 4 * x_stride, reinterpret_cast<uint8_t*>(packed + k * kFloatRows + r), 4 * kFloatRows);
    }
    for (; k < count; ++k) {
      for (size_t i = 0; i < 4; ++i) packed[k * kFloatRows + r + i] = x[(r + i) * x_stride + k];
    }
  }
  const size_t computed = rows > 4 ? kFloatRows : rows > 1 ? 4 : 1;
  for (; r < computed; ++r) {
    for (size_t k = 0; k < count; ++k) packed[k * kFloatRows + r] = r < rows ? x[r * x_stride + k] : 0.0f;
  }
}

// Where AddFloats finds value k of row r.
struct PackedX {
  const float* x;
  HWY_INLINE float At(size_t r, size_t k) const { return x[k * kFloatRows + r]; }
};
template <size_t kRows>
struct InPlaceX {
  const float* row[kRows];
  HWY_INLINE float At(size_t r, size_t k) const { return row[r][k]; }
};

// sums[r][t * kTile + lane] += x[r][0 .. count) * w
template <class Load, size_t kRows, size_t kTiles, class X>
HWY_NOINLINE void AddFloats(X x, const uint8_t* w, size_t tile_bytes, size_t count, float* sums, size_t sums_stride) {
  const DF32 df;
  constexpr size_t kOuts = kTiles * kVectors;
  VF32 acc[kRows * kOuts];
  Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
    Unroll<kOuts>(
        [&](auto o) MOONLIT_INLINE_LAMBDA { acc[r * kOuts + o] = hn::LoadU(df, sums + r * sums_stride + o * kLanes); });
  });
  for (size_t k = 0; k < count; ++k) {
    Unroll<kOuts>([&](auto o) MOONLIT_INLINE_LAMBDA {
      constexpr size_t t = decltype(o)::value / kVectors;
      constexpr size_t v = decltype(o)::value % kVectors;
      const VF32 weights = Load::At(w + t * tile_bytes, k * kTile + v * kLanes);
      Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
        acc[r * kOuts + o] = hn::MulAdd(hn::Set(df, x.At(r, k)), weights, acc[r * kOuts + o]);
      });
    });
  }
  Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
    Unroll<kOuts>(
        [&](auto o) MOONLIT_INLINE_LAMBDA { hn::StoreU(acc[r * kOuts + o], df, sums + r * sums_stride + o * kLanes); });
  });
}

// `rows` (1 .. kFloatRows) packed rows; `sums` has room for kFloatRows.
template <class Load>
HWY_INLINE void AddPackedRows(const float* packed, size_t rows, const uint8_t* w, size_t count, float* sums) {
  if (kFloatRows > 4 && rows > 4) {
    AddFloats<Load, kFloatRows, 1>(PackedX{packed}, w, 0, count, sums, kTile);
  } else if (rows > 1) {
    AddFloats<Load, 4, 1>(PackedX{packed}, w, 0, count, sums, kTile);
  } else {
    AddFloats<Load, 1, 1>(PackedX{packed}, w, 0, count, sums, kTile);
  }
}

// Rows whose sums a task keeps on the stack; the exact path decodes a piece of a tile once for all of them.
constexpr size_t kStackRows = 64;

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

// Up to kRows rows are read in place, weights as one stream. One row takes several tiles for independent sums.
template <class Load, size_t kRows, size_t kTiles>
void MultiplyFewRows(const ProductArgs& args, size_t tile_bytes) {
  HWY_ALIGN float sums[kTiles * kRows * kTile];
  InPlaceX<kRows> x;
  for (size_t r = 0; r < kRows; ++r) x.row[r] = args.x + (r < args.rows ? r : args.rows - 1) * args.x_stride;
  const auto tiles = [&](size_t tile, auto count) MOONLIT_INLINE_LAMBDA {
    memset(sums, 0, sizeof(sums));
    AddFloats<Load, kRows, decltype(count)::value>(x, args.weights + tile * tile_bytes, tile_bytes, args.k, sums,
                                                   kTiles * kTile);
    for (size_t t = 0; t < count; ++t) StoreSums(args, tile + t, 0, args.rows, sums + t * kTile, kTiles * kTile);
  };
  size_t tile = args.tile_begin;
  for (; tile + kTiles <= args.tile_end; tile += kTiles) tiles(tile, Index<kTiles>());
  for (; tile < args.tile_end; ++tile) tiles(tile, Index<1>());
}

// Many rows: a piece of K of kStackRows rows is packed once for a group of tiles. Sums wait in memory between pieces and lose
// nothing there. An arithmetic has
//   kRows                           rows that lie together
//   kPiece, kBytes                  k of a piece; bytes of a weight
//   Word, kWords                    of packed activations, and how many of them a row's piece is
//   Pack(x, stride, rows, k, out)   up to kRows rows
//   Add(packed, rows, w, k, sums)   one tile's piece for all rows; sums [rows][kTile]
template <class Arithmetic>
HWY_NOINLINE void MultiplyInPieces(const ProductArgs& args, size_t tile_bytes) {
  constexpr size_t kPiece = Arithmetic::kPiece, kWords = Arithmetic::kWords, kGroup = 8;
  HWY_ALIGN float sums[kGroup * kStackRows * kTile];
  HWY_ALIGN typename Arithmetic::Word packed[kStackRows * kWords];
  for (size_t row = 0; row < args.rows; row += kStackRows) {
    const size_t count = args.rows - row < kStackRows ? args.rows - row : kStackRows;
    for (size_t first = args.tile_begin; first < args.tile_end; first += kGroup) {
      const size_t tiles = args.tile_end - first < kGroup ? args.tile_end - first : kGroup;
      memset(sums, 0, tiles * kStackRows * kTile * sizeof(float));
      for (size_t begin = 0; begin < args.k; begin += kPiece) {
        const size_t piece = args.k - begin < kPiece ? args.k - begin : kPiece;
        for (size_t r = 0; r < count; r += Arithmetic::kRows) {
          const size_t rows = count - r < Arithmetic::kRows ? count - r : Arithmetic::kRows;
          Arithmetic::Pack(args.x + (row + r) * args.x_stride + begin, args.x_stride, rows, piece, packed + r * kWords);
        }
        for (size_t t = 0; t < tiles; ++t) {
          const uint8_t* w = args.weights + (first + t) * tile_bytes + begin * kTile * Arithmetic::kBytes;
          Arithmetic::Add(packed, count, w, piece, sums + t * kStackRows * kTile);
        }
      }
      for (size_t t = 0; t < tiles; ++t) {
        StoreSums(args, first + t, row, count, sums + t * kStackRows * kTile, kTile);
      }
    }
  }
}

template <class Load>
struct InFloats {
  static constexpr size_t kRows = kFloatRows, kPiece = 64, kBytes = Load::kBytes;
  using Word = float;
  static constexpr size_t kWords = kPiece;
  static HWY_INLINE void Pack(const float* x, size_t stride, size_t rows, size_t k, float* out) {
    PackRows(x, stride, rows, k, out);
  }
  static HWY_INLINE void Add(const float* packed, size_t count, const uint8_t* w, size_t k, float* sums) {
    for (size_t r = 0; r < count; r += kFloatRows) {
      AddPackedRows<Load>(packed + r * kWords, count - r < kFloatRows ? count - r : kFloatRows, w, k, sums + r * kTile);
    }
  }
};

template <class Load>
void MultiplyFloats(const ProductArgs& args) {
  const size_t tile_bytes = FloatTileBytes<Load>(args.k);
  if (args.rows == 1) return MultiplyFewRows<Load, 1, kFloatTiles>(args, tile_bytes);
  if (args.rows <= 4) return MultiplyFewRows<Load, 4, 1>(args, tile_bytes);
  MultiplyInPieces<InFloats<Load>>(args, tile_bytes);
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
