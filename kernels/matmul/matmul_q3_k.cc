// SPDX-License-Identifier: Apache-2.0
// Products with Q3_K weights. A block: 32 bytes of third bits; 64 bytes of 2-bit quants (planes as in Q2_K); 12
// bytes with sixteen 6-bit scales; f16 d. value = d * (scale - 32) * (3 bits - 4).
#include "kernels/matmul/bytes_kernel-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

struct Q3_KCodec {
  static constexpr Format kFormat = Format::kQ3_K;
  static constexpr size_t kBlock = 256, kBytes = 110;
  static constexpr size_t kChunks = 2, kUnits = 4, kParts = 2;
  static constexpr bool kHasMin = false, kSigned = false;
  static constexpr int kBound = 7, kOffset = 4;
  static constexpr Field kSmall[] = {{FieldKind::kWord, 96, 3}, {FieldKind::kHalf, 108, 1}};
  static constexpr Field kBig[] = {{FieldKind::kWord, 0, 8}, {FieldKind::kWord, 32, 16}};

  // Low nibbles of scales 0-7 and 8-15 are the nibbles of the first two words; their high pairs are in the third.
  static HWY_INLINE void Scales(const uint8_t* small, size_t v, VF32* scale, VF32*) {
    const DU32 du32;
    const VF32 d = Halves(small + WordsBytes(3), 0, v);
    const VU32 pairs = Words(small, 2, v);
    const VU32 nibble = hn::Set(du32, 0x0F0F0F0Fu);
    const VU32 pair = hn::Set(du32, 0x03030303u);
    VU32 six[4];
    Unroll<4>([&](auto i) MOONLIT_INLINE_LAMBDA {
      const VU32 low = hn::And(hn::ShiftRight<4 * (i / 2)>(Words(small, i % 2, v)), nibble);
      six[i] = hn::Or(low, hn::ShiftLeft<4>(hn::And(hn::ShiftRight<2 * i>(pairs), pair)));
    });
    Unroll<16>([&](auto i) MOONLIT_INLINE_LAMBDA {
      const VI32 centred = hn::Sub(hn::BitCast(DI32(), BitsOfWord<8 * (i % 4), 8>(six[i / 4])), hn::Set(DI32(), 32));
      scale[i] = hn::Mul(d, hn::ConvertTo(DF32(), centred));
    });
  }

  template <size_t kUnit>
  static HWY_INLINE void Weights(const uint8_t*, const uint8_t* big, size_t chunk, size_t v, VU8 (&w)[8]) {
    const uint8_t* quants = big + WordsBytes(8);
    Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA {
      const VU32 third = hn::ShiftRightSame(Words(big, s, v), static_cast<int>(4 * chunk));
      const VU8 low = ShiftAndMask<2 * kUnit>(Words(quants, chunk * 8 + s, v), 3);
      w[s] = hn::Or(low, ShiftAndMask<static_cast<int>(kUnit) - 2>(third, 4));
    });
  }
};

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit

MOONLIT_BYTE_PRODUCT(q3_k, Q3_KCodec)
