// SPDX-License-Identifier: Apache-2.0
// Products with IQ4_NL weights. A block: f16 d; 16 bytes of nibbles, value = d * codebook[nibble].
#include "kernels/matmul/bytes_kernel-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

struct IQ4_NLCodec {
  static constexpr Format kFormat = Format::kIQ4_NL;
  static constexpr size_t kBlock = 32, kBytes = 18;
  static constexpr size_t kChunks = 1, kUnits = 1, kParts = 1;
  static constexpr bool kHasMin = false, kSigned = true;
  static constexpr int kBound = 127, kOffset = 0;
  static constexpr Field kSmall[] = {{FieldKind::kHalf, 0, 1}};
  static constexpr Field kBig[] = {{FieldKind::kWord, 2, 4}};

  static HWY_INLINE void Scales(const uint8_t* small, size_t v, VF32* scale, VF32*) { scale[0] = Halves(small, 0, v); }

  template <size_t kUnit>
  static HWY_INLINE void Weights(const uint8_t*, const uint8_t* big, size_t, size_t v, VU8 (&w)[8]) {
    Nibbles(big, v, w);
    Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA { w[s] = Codebook(kIq4Codes, w[s]); });
  }
};

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit

MOONLIT_BYTE_PRODUCT(iq4_nl, IQ4_NLCodec)
