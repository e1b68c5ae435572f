// SPDX-License-Identifier: Apache-2.0
// Products with Q4_1 weights. A block: f16 d, m; 16 bytes of nibbles, value = d * nibble + m.
#include "kernels/matmul/bytes_kernel-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

struct Q4_1Codec {
  static constexpr Format kFormat = Format::kQ4_1;
  static constexpr size_t kBlock = 32, kBytes = 20;
  static constexpr size_t kChunks = 1, kUnits = 1, kParts = 1;
  static constexpr bool kHasMin = true, kSigned = false;
  static constexpr int kBound = 15, kOffset = 0;
  static constexpr Field kSmall[] = {{FieldKind::kHalf, 0, 2}};
  static constexpr Field kBig[] = {{FieldKind::kWord, 4, 4}};

  static HWY_INLINE void Scales(const uint8_t* small, size_t v, VF32* scale, VF32* min) {
    scale[0] = Halves(small, 0, v);
    min[0] = hn::Neg(Halves(small, 1, v));
  }

  template <size_t kUnit>
  static HWY_INLINE void Weights(const uint8_t*, const uint8_t* big, size_t, size_t v, VU8 (&w)[8]) {
    Nibbles(big, v, w);
  }
};

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit

MOONLIT_BYTE_PRODUCT(q4_1, Q4_1Codec)
