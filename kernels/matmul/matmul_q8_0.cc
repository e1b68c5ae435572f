// SPDX-License-Identifier: Apache-2.0
// Products with Q8_0 weights. A block: f16 d; 32 int8, value = d * q.
#include "kernels/matmul/bytes_kernel-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

struct Q8_0Codec {
  static constexpr Format kFormat = Format::kQ8_0;
  static constexpr size_t kBlock = 32, kBytes = 34;
  static constexpr size_t kChunks = 1, kUnits = 1, kParts = 1;
  static constexpr bool kHasMin = false, kSigned = true;
  static constexpr int kBound = 128, kOffset = 0;
  static constexpr Field kSmall[] = {{FieldKind::kHalf, 0, 1}};
  static constexpr Field kBig[] = {{FieldKind::kWord, 2, 8}};

  static HWY_INLINE void Scales(const uint8_t* small, size_t v, VF32* scale, VF32*) { scale[0] = Halves(small, 0, v); }

  template <size_t kUnit>
  static HWY_INLINE void Weights(const uint8_t*, const uint8_t* big, size_t, size_t v, VU8 (&w)[8]) {
    const VU8 bias = hn::Set(DU8(), 0x80);
    Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA {
      w[s] = hn::BitCast(DU8(), Words(big, s, v));
      if (kBiasSignedWeights) w[s] = hn::Xor(w[s], bias);
    });
  }
};

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit

MOONLIT_BYTE_PRODUCT(q8_0, Q8_0Codec)
