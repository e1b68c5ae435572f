// SPDX-License-Identifier: Apache-2.0
// Products with Q6_K weights. A block: 128 bytes of low nibbles and 64 bytes of high pairs (in each half: two
// planes of 64 nibbles, four planes of 32 pairs); sixteen int8 scales; f16 d. value = d * scale * (6 bits - 32).
#include "kernels/matmul/bytes_kernel-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

struct Q6_KCodec {
  static constexpr Format kFormat = Format::kQ6_K;
  static constexpr size_t kBlock = 256, kBytes = 210;
  static constexpr size_t kChunks = 2, kUnits = 4, kParts = 2;
  static constexpr bool kHasMin = false, kSigned = false;
  static constexpr int kBound = 63, kOffset = 32;
  static constexpr Field kSmall[] = {{FieldKind::kWord, 192, 4}, {FieldKind::kHalf, 208, 1}};
  static constexpr Field kBig[] = {{FieldKind::kWord, 0, 32}, {FieldKind::kWord, 128, 16}};

  static HWY_INLINE void Scales(const uint8_t* small, size_t v, VF32* scale, VF32*) {
    const VF32 d = Halves(small + WordsBytes(4), 0, v);
    Unroll<4>([&](auto i) MOONLIT_INLINE_LAMBDA {
      const VU32 words = Words(small, i, v);
      Unroll<4>([&](auto j) MOONLIT_INLINE_LAMBDA {
        scale[4 * i + j] = hn::Mul(d, hn::ConvertTo(DF32(), SignedByteOfWord<j>(words)));
      });
    });
  }

  template <size_t kUnit>
  static HWY_INLINE void Weights(const uint8_t*, const uint8_t* big, size_t chunk, size_t v, VU8 (&w)[8]) {
    const uint8_t* pairs = big + WordsBytes(32);
    Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA {
      const VU8 low = ShiftAndMask<4 * (kUnit / 2)>(Words(big, chunk * 16 + kUnit % 2 * 8 + s, v), 0x0F);
      const VU8 high = ShiftAndMask<2 * static_cast<int>(kUnit) - 4>(Words(pairs, chunk * 8 + s, v), 0x30);
      w[s] = hn::Or(low, high);
    });
  }
};

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit

MOONLIT_BYTE_PRODUCT(q6_k, Q6_KCodec)
