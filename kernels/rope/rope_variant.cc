// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/variant-inl.h"
#include "kernels/rope/rope.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE void Rotate(V& x, V& y, V cosine, V sine) {
  const V turned = hn::NegMulAdd(y, sine, hn::Mul(x, cosine));
  y = hn::MulAdd(x, sine, hn::Mul(y, cosine));
  x = turned;
}

void RotateHalves(const float* x, size_t pairs, const float* cosines, const float* sines, float* out) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  for (size_t i = 0; i < pairs; i += lanes) {
    const size_t n = pairs - i < lanes ? pairs - i : lanes;
    V a = hn::LoadN(tag, x + i, n);
    V b = hn::LoadN(tag, x + pairs + i, n);
    Rotate(a, b, hn::LoadN(tag, cosines + i, n), hn::LoadN(tag, sines + i, n));
    hn::StoreN(a, tag, out + i, n);
    hn::StoreN(b, tag, out + pairs + i, n);
  }
}

void RotatePairs(const float* x, size_t pairs, const float* cosines, const float* sines, float* out) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  V a, b;
  size_t i = 0;
  for (; i + lanes <= pairs; i += lanes) {
    hn::LoadInterleaved2(tag, x + 2 * i, a, b);
    Rotate(a, b, hn::LoadU(tag, cosines + i), hn::LoadU(tag, sines + i));
    hn::StoreInterleaved2(a, b, tag, out + 2 * i);
  }
  if (i == pairs) return;
  const size_t n = pairs - i;
  HWY_ALIGN float rest[2 * hn::MaxLanes(D())] = {};
  memcpy(rest, x + 2 * i, 2 * n * sizeof(float));
  hn::LoadInterleaved2(tag, rest, a, b);
  Rotate(a, b, hn::LoadN(tag, cosines + i, n), hn::LoadN(tag, sines + i, n));
  hn::StoreInterleaved2(a, b, tag, rest);
  memcpy(out + 2 * i, rest, 2 * n * sizeof(float));
}

void RotateHeads(const RopeArgs& args) {
  const size_t pairs = args.rotated / 2;
  for (size_t h = 0; h < args.heads; ++h) {
    const float* x = args.x + h * args.x_stride;
    float* out = args.out + h * args.out_stride;
    if (args.kind == RopeKind::kHalves) {
      RotateHalves(x, pairs, args.cosines, args.sines, out);
    } else {
      RotatePairs(x, pairs, args.cosines, args.sines, out);
    }
    if (out != x) memcpy(out + args.rotated, x + args.rotated, (args.head_dim - args.rotated) * sizeof(float));
  }
}

}  // namespace

extern const RopeTable kRopeTable;
const RopeTable kRopeTable = {&RotateHeads};

}  // namespace MOONLIT_NS
}  // namespace moonlit
