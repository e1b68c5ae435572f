// SPDX-License-Identifier: Apache-2.0
// Packing's inner step: squares of elements from rows of the file to columns of a tile. 128-bit vectors on every variant, since
// a row has few neighbouring elements of one field.
#pragma once

#include "kernels/simd/unroll-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The elements of `a` and `b` in turn, first the lower half's, then the upper half's.
template <class D, class V>
HWY_INLINE void Interleave(D d, V a, V b, V* lower, V* upper) {
  *lower = hn::InterleaveLower(d, a, b);
  *upper = hn::InterleaveUpper(d, a, b);
}

// 4 by 4 words in place.
HWY_INLINE void TransposeSquare(hn::Vec<hn::Full128<uint32_t>> (*square)[4]) {
  const hn::Full128<uint32_t> d32;
  const hn::Full128<uint64_t> d64;
  using V32 = hn::Vec<hn::Full128<uint32_t>>;
  using V64 = hn::Vec<hn::Full128<uint64_t>>;
  V32 pair[4];
  Interleave(d32, (*square)[0], (*square)[1], &pair[0], &pair[1]);
  Interleave(d32, (*square)[2], (*square)[3], &pair[2], &pair[3]);
  Unroll<2>([&](auto i) MOONLIT_INLINE_LAMBDA {
    V64 column[2];
    Interleave(d64, hn::BitCast(d64, pair[i]), hn::BitCast(d64, pair[2 + i]), &column[0], &column[1]);
    Unroll<2>([&](auto j) MOONLIT_INLINE_LAMBDA { (*square)[2 * i + j] = hn::BitCast(d32, column[j]); });
  });
}

// out[e][n] = in[n][e] for 4 by 4 words; strides in bytes, any alignment.
HWY_INLINE void TransposeWords(const uint8_t* in, size_t in_stride, uint8_t* out, size_t out_stride) {
  const hn::Full128<uint8_t> d8;
  hn::Vec<hn::Full128<uint32_t>> square[4];
  Unroll<4>([&](auto n) MOONLIT_INLINE_LAMBDA {
    square[n] = hn::BitCast(hn::Full128<uint32_t>(), hn::LoadU(d8, in + n * in_stride));
  });
  TransposeSquare(&square);
  Unroll<4>([&](auto e) MOONLIT_INLINE_LAMBDA { hn::StoreU(hn::BitCast(d8, square[e]), d8, out + e * out_stride); });
}

// The same for 8 by 8 halves.
HWY_INLINE void TransposeHalves(const uint8_t* in, size_t in_stride, uint8_t* out, size_t out_stride) {
  const hn::Full128<uint16_t> d16;
  const hn::Full128<uint32_t> d32;
  const hn::Full128<uint64_t> d64;
  hn::Vec<hn::Full128<uint16_t>> row[8], pair[8];
  Unroll<8>([&](auto n) MOONLIT_INLINE_LAMBDA {
    row[n] = hn::BitCast(d16, hn::LoadU(hn::Full128<uint8_t>(), in + n * in_stride));
  });
  // pair[2i + h]: elements 4h .. 4h + 3 of rows 2i, 2i + 1; four[4j + 2h + l]: elements 4h + 2l, + 1 of rows 4j .. 4j + 3.
  Unroll<4>([&](auto i)
                MOONLIT_INLINE_LAMBDA { Interleave(d16, row[2 * i], row[2 * i + 1], &pair[2 * i], &pair[2 * i + 1]); });
  hn::Vec<hn::Full128<uint32_t>> four[8];
  Unroll<4>([&](auto i) MOONLIT_INLINE_LAMBDA {
    constexpr size_t j = decltype(i)::value / 2, h = decltype(i)::value % 2;
    Interleave(d32, hn::BitCast(d32, pair[4 * j + h]), hn::BitCast(d32, pair[4 * j + 2 + h]), &four[4 * j + 2 * h],
               &four[4 * j + 2 * h + 1]);
  });
  Unroll<4>([&](auto i) MOONLIT_INLINE_LAMBDA {
    hn::Vec<hn::Full128<uint64_t>> even, odd;
    Interleave(d64, hn::BitCast(d64, four[i]), hn::BitCast(d64, four[4 + i]), &even, &odd);
    const hn::Full128<uint8_t> d8;
    hn::StoreU(hn::BitCast(d8, even), d8, out + 2 * i * out_stride);
    hn::StoreU(hn::BitCast(d8, odd), d8, out + (2 * i + 1) * out_stride);
  });
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
