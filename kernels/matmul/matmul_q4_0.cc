// SPDX-License-Identifier: Apache-2.0
// Products with Q4_0 weights. A block: f16 d; 16 bytes of nibbles, value = d * (nibble - 8).
#include "kernels/matmul/bytes_kernel-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

struct Q4_0Codec {
  static constexpr Format kFormat = Format::kQ4_0;
  static constexpr size_t kBlock = 32, kBytes = 18;
  static constexpr size_t kChunks = 1, kUnits = 1, kParts = 1;
  static constexpr bool kHasMin = false, kSigned = false;
  static constexpr int kBound = 15, kOffset = 8;
  static constexpr Field kSmall[] = {{FieldKind::kHalf, 0, 1}};
  static constexpr Field kBig[] = {{FieldKind::kWord, 2, 4}};

  static HWY_INLINE void Scales(const uint8_t* small, size_t v, VF32* scale, VF32*) { scale[0] = Halves(small, 0, v); }

  template <size_t kUnit>
  static HWY_INLINE void Weights(const uint8_t*, const uint8_t* big, size_t, size_t v, VU8 (&w)[8]) {
    Nibbles(big, v, w);
  }
};

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit

MOONLIT_BYTE_PRODUCT(q4_0, Q4_0Codec)
