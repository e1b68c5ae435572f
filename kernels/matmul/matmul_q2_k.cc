// SPDX-License-Identifier: Apache-2.0
// Products with Q2_K weights. A block: 16 bytes of (scale, min) nibbles for 16 values each; 64 bytes of 2-bit
// quants (four planes of 32 values in each half); f16 d, dmin. value = d * scale * q - dmin * min.
#include "kernels/matmul/bytes_kernel-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

struct Q2_KCodec {
  static constexpr Format kFormat = Format::kQ2_K;
  static constexpr size_t kBlock = 256, kBytes = 84;
  static constexpr size_t kChunks = 2, kUnits = 4, kParts = 2;
  static constexpr bool kHasMin = true, kSigned = false;
  static constexpr int kBound = 3, kOffset = 0;
  static constexpr Field kSmall[] = {{FieldKind::kWord, 0, 4}, {FieldKind::kHalf, 80, 2}};
  static constexpr Field kBig[] = {{FieldKind::kWord, 16, 16}};

  static HWY_INLINE void Scales(const uint8_t* small, size_t v, VF32* scale, VF32* min) {
    const VF32 d = Halves(small + WordsBytes(4), 0, v);
    const VF32 dmin = Halves(small + WordsBytes(4), 1, v);
    Unroll<4>([&](auto i) MOONLIT_INLINE_LAMBDA {
      const VU32 words = Words(small, i, v);
      Unroll<4>([&](auto j) MOONLIT_INLINE_LAMBDA {
        scale[4 * i + j] = hn::Mul(d, ToFloat(BitsOfWord<8 * j, 4>(words)));
        min[4 * i + j] = hn::Mul(dmin, ToFloat(BitsOfWord<8 * j + 4, 4>(words)));
      });
    });
  }

  template <size_t kUnit>
  static HWY_INLINE void Weights(const uint8_t*, const uint8_t* big, size_t chunk, size_t v, VU8 (&w)[8]) {
    Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA { w[s] = ShiftAndMask<2 * kUnit>(Words(big, chunk * 8 + s, v), 3); });
  }
};

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit

MOONLIT_BYTE_PRODUCT(q2_k, Q2_KCodec)
