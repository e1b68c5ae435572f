// SPDX-License-Identifier: Apache-2.0
// Products with Q5_1 weights. A block: f16 d, m; a word of fifth bits; 16 bytes of nibbles, value = d * (5 bits) + m.
#include "kernels/matmul/bytes_kernel-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

struct Q5_1Codec {
  static constexpr Format kFormat = Format::kQ5_1;
  static constexpr size_t kBlock = 32, kBytes = 24;
  static constexpr size_t kChunks = 1, kUnits = 1, kParts = 1;
  static constexpr bool kHasMin = true, kSigned = false;
  static constexpr int kBound = 31, kOffset = 0;
  static constexpr Field kSmall[] = {{FieldKind::kHalf, 0, 2}};
  static constexpr Field kBig[] = {{FieldKind::kSpreadWord, 4, 1}, {FieldKind::kWord, 8, 4}};

  static HWY_INLINE void Scales(const uint8_t* small, size_t v, VF32* scale, VF32* min) {
    scale[0] = Halves(small, 0, v);
    min[0] = hn::Neg(Halves(small, 1, v));
  }

  template <size_t kUnit>
  static HWY_INLINE void Weights(const uint8_t*, const uint8_t* big, size_t, size_t v, VU8 (&w)[8]) {
    Nibbles(big + WordsBytes(1), v, w);
    AddFifthBits(Words(big, 0, v), w);
  }
};

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit

MOONLIT_BYTE_PRODUCT(q5_1, Q5_1Codec)
