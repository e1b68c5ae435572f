// SPDX-License-Identifier: Apache-2.0
// The end of every product: accumulator (+ bias) (+ addend) -> out, in this order, for whole and partial tiles.
#pragma once

#include "kernels/matmul/layout-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// `acc`: kVectors vectors, the outputs of tile `tile` for row `row`.
HWY_INLINE void StoreVector(const ProductArgs& args, size_t row, size_t n, VF32 acc) {
  const DF32 df;
  float* out = args.out + row * args.out_stride + (n - args.out_first);
  const float* addend = args.addend ? args.addend + row * args.addend_stride + (n - args.out_first) : nullptr;
  if (HWY_LIKELY(n + kLanes <= args.n)) {
    if (args.bias) acc = hn::Add(acc, hn::LoadU(df, args.bias + n));
    if (addend) acc = hn::Add(acc, hn::LoadU(df, addend));
    hn::StoreU(acc, df, out);
    return;
  }
  HWY_ALIGN float values[kLanes];
  hn::Store(acc, df, values);
  for (size_t i = 0; n + i < args.n; ++i) {
    float value = values[i];
    if (args.bias) value += args.bias[n + i];
    if (addend) value += addend[i];
    out[i] = value;
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
