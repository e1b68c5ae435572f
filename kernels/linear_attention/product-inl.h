// SPDX-License-Identifier: Apache-2.0
// Small dense products c = keep * c + a b, all of a chunk's work: rows of a are broadcast, lanes are columns of b and c. One
// accumulator an output, its terms added in ascending order, whatever tile it falls into.
#pragma once

#include "kernels/cpu/variant-inl.h"
#include "kernels/simd/unroll-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
static_assert(HWY_MAX_LANES_D(D) <= 16, "rows are padded to 16 floats");

// Targets with 32 vector registers hold eight rows of two vectors, those with 16 four.
#if HWY_TARGET <= HWY_AVX3 || defined(__aarch64__)
constexpr size_t kTileRows = 8, kStepVectors = 8;
#else
constexpr size_t kTileRows = 4, kStepVectors = 4;
#endif

// A factor of a product, or its result: rows of floats.
struct Matrix {
  float* data;
  size_t stride;
};

// What becomes of the result's former value.
struct Former {
  bool read;   // false: it is taken for 0, and not read
  float keep;  // multiplies it
};
constexpr Former kOverwrite = {false, 0.0f}, kAddTo = {true, 1.0f};

template <size_t kRows, size_t kVectors>
MOONLIT_INNER void MultiplyTile(const float* a, size_t a_stride, const float* b, size_t b_stride, size_t depth,
                                float* c, size_t c_stride, Former former) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  V sum[kRows][kVectors];
  const V keep = hn::Set(tag, former.keep);
  Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
    Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA {
      sum[r][v] = former.read ? hn::Mul(keep, hn::LoadU(tag, c + r * c_stride + v * lanes)) : hn::Zero(tag);
    });
  });
  for (size_t i = 0; i < depth; ++i) {
    V column[kVectors];
    Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA { column[v] = hn::LoadU(tag, b + i * b_stride + v * lanes); });
    Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
      const V factor = hn::Set(tag, a[r * a_stride + i]);
      Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA { sum[r][v] = hn::MulAdd(factor, column[v], sum[r][v]); });
    });
  }
  Unroll<kRows>([&](auto r) MOONLIT_INLINE_LAMBDA {
    Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA { hn::StoreU(sum[r][v], tag, c + r * c_stride + v * lanes); });
  });
}

template <size_t kRows, size_t kVectors>
MOONLIT_INNER void MultiplyRows(const float* a, size_t a_stride, Matrix b, size_t columns, size_t depth, float* c,
                                size_t c_stride, Former former) {
  const size_t lanes = hn::Lanes(D());
  size_t n = 0;
  for (; n + kVectors * lanes <= columns; n += kVectors * lanes) {
    MultiplyTile<kRows, kVectors>(a, a_stride, b.data + n, b.stride, depth, c + n, c_stride, former);
  }
  for (; n < columns; n += lanes) {
    MultiplyTile<kRows, 1>(a, a_stride, b.data + n, b.stride, depth, c + n, c_stride, former);
  }
}

// c = former + a b for a: [rows, depth], b: [depth, columns]. columns: a multiple of 16.
void Multiply(size_t rows, size_t columns, size_t depth, Matrix a, Matrix b, Matrix c, Former former) {
  size_t r = 0;
  for (; r + kTileRows <= rows; r += kTileRows) {
    MultiplyRows<kTileRows, 2>(a.data + r * a.stride, a.stride, b, columns, depth, c.data + r * c.stride, c.stride,
                               former);
  }
  for (; r < rows; ++r) {
    MultiplyRows<1, 4>(a.data + r * a.stride, a.stride, b, columns, depth, c.data + r * c.stride, c.stride, former);
  }
}

// c[r] += sum over i < r (kStrict) or i <= r of a[r, i] b[i], for a square a of kRecurrentChunk rows. With b = c and kStrict this solves
// (I - a) c = (former c). What a holds on the other side of the diagonal is not read.
template <bool kStrict>
void MultiplyTriangle(size_t columns, Matrix a, Matrix b, Matrix c) {
  for (size_t block = 0; block < kRecurrentChunk; block += kTileRows) {
    float* out = c.data + block * c.stride;
    const float* factors = a.data + block * a.stride;
    if (block != 0) MultiplyRows<kTileRows, 2>(factors, a.stride, b, columns, block, out, c.stride, kAddTo);
    const Matrix beside = {b.data + block * b.stride, b.stride};
    for (size_t r = kStrict ? 1 : 0; r < kTileRows; ++r) {
      MultiplyRows<1, 4>(factors + r * a.stride + block, a.stride, beside, columns, kStrict ? r : r + 1,
                         out + r * c.stride, c.stride, kAddTo);
    }
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
