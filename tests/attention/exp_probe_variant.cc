// SPDX-License-Identifier: Apache-2.0
#include "kernels/simd/exp-inl.h"
#include "tests/attention/exp_probe.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 16>;

template <class Function>
HWY_INLINE void Map(const float* x, float* out, size_t n, Function function) {
  const D d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) hn::StoreU(function(d, hn::LoadU(d, x + i)), d, out + i);
}

void MapExp2(const float* x, float* out, size_t n) {
  Map(x, out, n, [](D d, hn::Vec<D> v) { return Exp2(d, v); });
}
void MapExp2UpTo127(const float* x, float* out, size_t n) {
  Map(x, out, n, [](D d, hn::Vec<D> v) { return Exp2UpTo127(d, v); });
}
void MapExp(const float* x, float* out, size_t n) {
  Map(x, out, n, [](D d, hn::Vec<D> v) { return Exp(d, v); });
}
void MapTanh(const float* x, float* out, size_t n) {
  Map(x, out, n, [](D d, hn::Vec<D> v) { return Tanh(d, v); });
}

}  // namespace

const ExpProbeTable kExpProbeTable = {&MapExp2, &MapExp2UpTo127, &MapExp, &MapTanh};

}  // namespace MOONLIT_NS
}  // namespace moonlit
