// SPDX-License-Identifier: Apache-2.0
// Matrix products with packed weights:  out[m, n] = sum_k x[m, k] * w[n, k]  (+ bias[n]) (+ addend[m, n])
//
// Weights are packed once, when they are loaded, into tiles of n_tile outputs; GEMM (many rows) and GEMV (one row) read the
// same bytes. Tile t holds outputs [t * n_tile, (t + 1) * n_tile) for all of K in tile_bytes(k) contiguous bytes; the last
// tile is padded with zero weights. Packing is lossless: unpack_row gives the values of Traits(format).dequantize bit for bit.
//
// Numeric contract (docs/design.md): one float accumulator per output, blocks of K ascending, the same for one row and for
// many, for any split of rows or tiles over tasks and threads. Sums of products are exact in int32. A group of 32 activations
// that meets one weight scale and no minimum adds
//   acc = MulAdd(float(isum), a_scale * w_scale, acc)
// and one that meets two parts p of 16 with a scale each, or minima, adds
//   sum = float(isum[0]) * w_scale[0]
//   sum = MulAdd(float(isum[1]), w_scale[1], sum)        where there are two parts
//   sum = MulAdd(float(minus_sum[p]), w_min[p], sum)     for each part in turn, where there are minima
//   acc = MulAdd(a_scale, sum, acc)
// Formats whose activation is kF32 do acc = MulAdd(x, w, acc), k ascending; F16 and BF16, where the variant has bf16 dot products,
// round both factors to bf16 and do acc = DotBF16Pairs(acc, x pair, w pair), pairs ascending (Arithmetic::kBF16). The pair is added
// and rounded as the variant's instruction does it (PairRounding in reference.h).
// MulAdd is a fused multiply-add where the variant has it (not on x86_ssse3, scalar: there a multiply, then an add).
//
// Kernels are pure: no threads, no allocation; any thread may call them on disjoint outputs.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/variant.h"
#include "kernels/matmul/a8.h"
#include "kernels/quant/format.h"

namespace moonlit {

enum class Activation : uint8_t { kF32, kA8 };
// Which numbers are multiplied with each other; every sum ends in f32. multiply_exact is kF32 always.
enum class Arithmetic : uint8_t { kF32, kBF16, kInt8 };

struct ProductArgs {
  size_t k;                // inner size
  size_t n;                // outputs of the whole matrix (the last tile may be partial)
  const uint8_t* weights;  // packed tiles: tile t at weights + t * tile_bytes(k); 64-byte aligned
  size_t tile_begin;       // tiles [tile_begin, tile_end) are computed
  size_t tile_end;
  size_t rows;     // m = 0 .. rows - 1
  A8View a8;       // rows of activations, when the kernel wants kA8
  const float* x;  // [rows, k], row stride x_stride (elements), when it wants kF32 or is exact
  size_t x_stride;
  float* out;  // out[m * out_stride + n - out_first]; only outputs of the given tiles below n are written
  size_t out_stride;
  size_t out_first;     // index of the output that out[0] stands for: 0, or tile_begin * n_tile for a scratch tile
  const float* bias;    // [n], or null
  const float* addend;  // addend[m * addend_stride + n - out_first], or null; may be equal to out
  size_t addend_stride;
};

// One kernel: a format's product on one variant. All pointers are non-null.
struct ProductKernel {
  const char* name;       // formula for logs and benches, for example "a8_q4_0_6x16x4"
  Activation activation;  // what `multiply` reads; `multiply_exact` always reads x
  Arithmetic arithmetic;  // of `multiply`
  uint32_t n_tile;        // outputs a tile
  uint32_t k_group;       // consecutive k that lie together for one output (4 for byte dots)
  size_t (*tile_bytes)(size_t k);
  // Packs `valid` (1 .. n_tile) rows in file format, row_stride bytes apart, into one tile; missing rows become zeros.
  void (*pack_tile)(const uint8_t* rows, size_t row_stride, size_t valid, size_t k, uint8_t* tile);
  // The values of row `row` (0 .. n_tile - 1) of a tile: [k] floats, bit-equal to the format's scalar decoder.
  void (*unpack_row)(const uint8_t* tile, size_t row, size_t k, float* values);
  void (*multiply)(const ProductArgs& args);
  // The same product by f32 arithmetic on dequantized weights and float activations: acc = MulAdd(x, w, acc), k ascending.
  void (*multiply_exact)(const ProductArgs& args);
};

// All products of one variant, indexed by Format.
struct ProductTable {
  ProductKernel kernels[sizeof(kAllFormats) / sizeof(kAllFormats[0])];
  // Quantizes rows of floats [rows, k] (stride x_stride elements) to A8. Rows are independent.
  void (*quantize_a8)(const float* x, size_t x_stride, size_t rows, size_t k, const A8View& out);
  // Row r by two terms (a8.h), which are rows 2r and 2r + 1 of `out`.
  void (*quantize_a8_twice)(const float* x, size_t x_stride, size_t rows, size_t k, const A8View& out);
};

// REQUIRES: IsBuilt(variant).
const ProductTable& GetProductTable(Variant variant);
inline const ProductKernel& GetProductKernel(Variant variant, Format format) {
  return GetProductTable(variant).kernels[static_cast<size_t>(format)];
}

}  // namespace moonlit
