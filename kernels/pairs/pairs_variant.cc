// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/variant-inl.h"
#include "kernels/pairs/pairs.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

float Dot(const float* a, const float* b, size_t n) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  auto sums = hn::Zero(tag);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) sums = hn::MulAdd(hn::LoadU(tag, a + i), hn::LoadU(tag, b + i), sums);
  if (i < n) sums = hn::MulAdd(hn::LoadN(tag, a + i, n - i), hn::LoadN(tag, b + i, n - i), sums);
  return hn::ReduceSum(tag, sums);
}

// Each is independent of the others, so the processor has several under way.
void Dots(const float* x, const float* rows, size_t stride, size_t n, size_t dim, float* out) {
  for (size_t j = 0; j < n; ++j) out[j] = Dot(x, rows + j * stride, dim);
}

// Columns [0, lanes) of the sum, of which `count` are there.
void SumColumns(const float* weights, const float* rows, size_t stride, size_t n, size_t count, float* out) {
  const D tag;
  auto sum = hn::Zero(tag);
  for (size_t j = 0; j < n; ++j)
    sum = hn::MulAdd(hn::Set(tag, weights[j]), hn::LoadN(tag, rows + j * stride, count), sum);
  hn::StoreN(sum, tag, out, count);
}

// Four vectors of columns, so that a row's weight is spread once for them.
void SumFour(const float* weights, const float* rows, size_t stride, size_t n, float* out) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  auto sum0 = hn::Zero(tag), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  for (size_t j = 0; j < n; ++j) {
    const auto weight = hn::Set(tag, weights[j]);
    const float* row = rows + j * stride;
    sum0 = hn::MulAdd(weight, hn::LoadU(tag, row), sum0);
    sum1 = hn::MulAdd(weight, hn::LoadU(tag, row + lanes), sum1);
    sum2 = hn::MulAdd(weight, hn::LoadU(tag, row + 2 * lanes), sum2);
    sum3 = hn::MulAdd(weight, hn::LoadU(tag, row + 3 * lanes), sum3);
  }
  hn::StoreU(sum0, tag, out);
  hn::StoreU(sum1, tag, out + lanes);
  hn::StoreU(sum2, tag, out + 2 * lanes);
  hn::StoreU(sum3, tag, out + 3 * lanes);
}

void WeightedSum(const float* weights, const float* rows, size_t stride, size_t n, size_t dim, float* out) {
  const size_t lanes = hn::Lanes(D());
  size_t c = 0;
  for (; c + 4 * lanes <= dim; c += 4 * lanes) SumFour(weights, rows + c, stride, n, out + c);
  for (; c < dim; c += lanes) SumColumns(weights, rows + c, stride, n, dim - c < lanes ? dim - c : lanes, out + c);
}

}  // namespace

extern const PairTable kPairTable;
const PairTable kPairTable = {&Dots, &WeightedSum};

}  // namespace MOONLIT_NS
}  // namespace moonlit
