// SPDX-License-Identifier: Apache-2.0
// Floats -> A8 (a8.h). Every variant gives the same bits: the maximum is exact, the two divisions are scalar IEEE ones (NEON
// on ARMv7 has none), the product is one rounding, and rounding to nearest even is done by adding 1.5 * 2^23, which needs no
// rounding instruction. Vectors are only used where their width can't be seen.
#include "kernels/matmul/layout-inl.h"
#include "kernels/matmul/products-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// Bits of |x|: as integers they are ordered like the magnitudes, with inf and NaN above all finite ones.
HWY_INLINE int32_t LargestMagnitudeBits(const float* x) {
  const DI32 di32;
  const VI32 magnitude = hn::Set(di32, 0x7FFFFFFF);
  VI32 largest = hn::Zero(di32);
  Unroll<kA8Group / kLanes>([&](auto i) MOONLIT_INLINE_LAMBDA {
    const VI32 bits = hn::BitCast(di32, hn::LoadU(DF32(), x + i * kLanes));
    largest = hn::Max(largest, hn::And(bits, magnitude));
  });
  return hn::ReduceMax(di32, largest);
}

// One group of 32 values.
MOONLIT_INNER void QuantizeGroup(const float* x, int8_t* q, float* scale, int32_t* minus_sum, size_t sum_stride) {
  constexpr int32_t kInfBits = 0x7F800000;
  constexpr int32_t kTinyBits = (127 - 119) << 23;  // of kA8Smallest
  const DF32 df;
  const DI32 di32;
  const int32_t largest_bits = LargestMagnitudeBits(x);
  if (largest_bits < kTinyBits || largest_bits >= kInfBits) {
    const uint32_t nan_bits = 0x7FC00000u;
    memset(q, 0, kA8Group);
    minus_sum[0] = minus_sum[sum_stride] = 0;
    *scale = 0.0f;
    if (largest_bits >= kInfBits) memcpy(scale, &nan_bits, sizeof(nan_bits));
    return;
  }
  float largest;
  memcpy(&largest, &largest_bits, sizeof(largest));
  *scale = largest / 127.0f;
  const VF32 inverse = hn::Set(df, 127.0f / largest);
  const VF32 magic = hn::Set(df, 12582912.0f);
  constexpr size_t kHalfVectors = kA8Group / 2 / kLanes;
  Unroll<2>([&](auto half) MOONLIT_INLINE_LAMBDA {
    VI32 sum = hn::Zero(di32);
    Unroll<kHalfVectors>([&](auto i) MOONLIT_INLINE_LAMBDA {
      const size_t at = half * kA8Group / 2 + i * kLanes;
      const VF32 shifted = hn::Add(hn::Mul(hn::LoadU(df, x + at), inverse), magic);
      const VI32 rounded = hn::Sub(hn::BitCast(di32, shifted), hn::Set(di32, 0x4B400000));
      sum = hn::Add(sum, rounded);
      hn::StoreU(hn::TruncateTo(hn::Rebind<uint8_t, DI32>(), hn::BitCast(DU32(), rounded)), hn::Rebind<uint8_t, DI32>(),
                 reinterpret_cast<uint8_t*>(q + at));
    });
    minus_sum[half * sum_stride] = -hn::ReduceSum(di32, sum);
  });
}

// x - scale * q, each operation rounded.
HWY_INLINE void SubtractGroup(const float* x, const int8_t* q, float scale, float* lost) {
  const DF32 df;
  const hn::Rebind<int8_t, DI32> di8;
  const VF32 scales = hn::Set(df, scale);
  Unroll<kA8Group / kLanes>([&](auto i) MOONLIT_INLINE_LAMBDA {
    const VF32 rounded = hn::ConvertTo(df, hn::PromoteTo(DI32(), hn::LoadU(di8, q + i * kLanes)));
    hn::StoreU(hn::Sub(hn::LoadU(df, x + i * kLanes), hn::Mul(scales, rounded)), df, lost + i * kLanes);
  });
}

// kTwice: what rounding the row loses is row `row` + 1.
template <bool kTwice>
void QuantizeRow(const float* x, size_t k, const A8View& out, size_t row) {
  const size_t whole = k / kA8Group;
  const size_t unit_bytes = A8UnitBytes(out.block_rows);
  uint8_t* unit = A8Unit(out, row, 0);
  const size_t i = A8RowInBlock(out, row);
  const auto quantize = [&](const float* group) MOONLIT_INLINE_LAMBDA {
    int8_t* q = reinterpret_cast<int8_t*>(unit) + kA8Group * i;
    float* scale = reinterpret_cast<float*>(unit + kA8Group * out.block_rows) + i;
    int32_t* sums = reinterpret_cast<int32_t*>(scale + out.block_rows);
    QuantizeGroup(group, q, scale, sums, out.block_rows);
    if constexpr (kTwice) {
      HWY_ALIGN float lost[kA8Group];
      SubtractGroup(group, q, *scale, lost);
      QuantizeGroup(lost, q + kA8Group, scale + 1, sums + 1, out.block_rows);
    }
    unit += unit_bytes;
  };
  for (size_t g = 0; g < whole; ++g) quantize(x + g * kA8Group);
  if (k % kA8Group != 0) {
    float last[kA8Group] = {};
    memcpy(last, x + whole * kA8Group, k % kA8Group * sizeof(float));
    quantize(last);
  }
}

}  // namespace

void QuantizeA8(const float* x, size_t x_stride, size_t rows, size_t k, const A8View& out) {
  for (size_t r = 0; r < rows; ++r) QuantizeRow<false>(x + r * x_stride, k, out, r);
}

void QuantizeA8Twice(const float* x, size_t x_stride, size_t rows, size_t k, const A8View& out) {
  for (size_t r = 0; r < rows; ++r) QuantizeRow<true>(x + r * x_stride, k, out, 2 * r);
}

}  // namespace MOONLIT_NS
}  // namespace moonlit
