// SPDX-License-Identifier: Apache-2.0
// Products with Q5_K weights. As Q4_K with 32 bytes of fifth bits before the nibbles: bit u of byte i is that of
// value i of the u-th 32. value = d * scale * (5 bits) - dmin * min.
#include "kernels/matmul/bytes_kernel-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

struct Q5_KCodec {
  static constexpr Format kFormat = Format::kQ5_K;
  static constexpr size_t kBlock = 256, kBytes = 176;
  static constexpr size_t kChunks = 4, kUnits = 2, kParts = 1;
  static constexpr bool kHasMin = true, kSigned = false;
  static constexpr int kBound = 31, kOffset = 0;
  static constexpr Field kSmall[] = {{FieldKind::kHalf, 0, 2}, {FieldKind::kWord, 4, 3}};
  static constexpr Field kBig[] = {{FieldKind::kWord, 16, 8}, {FieldKind::kWord, 48, 32}};

  static HWY_INLINE void Scales(const uint8_t* small, size_t v, VF32* scale, VF32* min) {
    SixBitScalesAndMins(small, v, scale, min);
  }

  template <size_t kUnit>
  static HWY_INLINE void Weights(const uint8_t*, const uint8_t* big, size_t chunk, size_t v, VU8 (&w)[8]) {
    const uint8_t* quants = big + WordsBytes(8);
    Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA {
      const VU32 fifth = hn::ShiftRightSame(Words(big, s, v), static_cast<int>(2 * chunk));
      const VU8 low = ShiftAndMask<4 * kUnit>(Words(quants, chunk * 8 + s, v), 0x0F);
      w[s] = hn::Or(low, ShiftAndMask<static_cast<int>(kUnit) - 4>(fifth, 0x10));
    });
  }
};

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit

MOONLIT_BYTE_PRODUCT(q5_k, Q5_KCodec)
