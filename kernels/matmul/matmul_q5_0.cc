// SPDX-License-Identifier: Apache-2.0
// Products with Q5_0 weights. A block: f16 d; a word of fifth bits; 16 bytes of nibbles, value = d * (5 bits - 16).
#include "kernels/matmul/bytes_kernel-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

struct Q5_0Codec {
  static constexpr Format kFormat = Format::kQ5_0;
  static constexpr size_t kBlock = 32, kBytes = 22;
  static constexpr size_t kChunks = 1, kUnits = 1, kParts = 1;
  static constexpr bool kHasMin = false, kSigned = false;
  static constexpr int kBound = 31, kOffset = 16;
  static constexpr Field kSmall[] = {{FieldKind::kHalf, 0, 1}};
  static constexpr Field kBig[] = {{FieldKind::kSpreadWord, 2, 1}, {FieldKind::kWord, 6, 4}};

  static HWY_INLINE void Scales(const uint8_t* small, size_t v, VF32* scale, VF32*) { scale[0] = Halves(small, 0, v); }

  template <size_t kUnit>
  static HWY_INLINE void Weights(const uint8_t*, const uint8_t* big, size_t, size_t v, VU8 (&w)[8]) {
    Nibbles(big + WordsBytes(1), v, w);
    AddFifthBits(Words(big, 0, v), w);
  }
};

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit

MOONLIT_BYTE_PRODUCT(q5_0, Q5_0Codec)
