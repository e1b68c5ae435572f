// SPDX-License-Identifier: Apache-2.0
// Products with IQ4_XS weights. A block: f16 d; high and low bits of eight 6-bit scales; eight times 16 bytes
// of nibbles, value = d * (scale - 32) * codebook[nibble].
#include "kernels/matmul/bytes_kernel-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

struct IQ4_XSCodec {
  static constexpr Format kFormat = Format::kIQ4_XS;
  static constexpr size_t kBlock = 256, kBytes = 136;
  static constexpr size_t kChunks = 8, kUnits = 1, kParts = 1;
  static constexpr bool kHasMin = false, kSigned = true;
  static constexpr int kBound = 127, kOffset = 0;
  static constexpr Field kSmall[] = {{FieldKind::kHalf, 0, 2}, {FieldKind::kWord, 4, 1}};
  static constexpr Field kBig[] = {{FieldKind::kWord, 8, 32}};

  static HWY_INLINE void Scales(const uint8_t* small, size_t v, VF32* scale, VF32*) {
    const VF32 d = Halves(small, 0, v);
    const VU32 high = Shorts(small, 1, v);
    const VU32 low = Words(small + HalvesBytes(2), 0, v);
    Unroll<8>([&](auto i) MOONLIT_INLINE_LAMBDA {
      const VU32 six = hn::Or(BitsOfWord<4 * i, 4>(low), hn::ShiftLeft<4>(BitsOfWord<2 * i, 2>(high)));
      const VI32 centred = hn::Sub(hn::BitCast(DI32(), six), hn::Set(DI32(), 32));
      scale[i] = hn::Mul(d, hn::ConvertTo(DF32(), centred));
    });
  }

  template <size_t kUnit>
  static HWY_INLINE void Weights(const uint8_t*, const uint8_t* big, size_t chunk, size_t v, VU8 (&w)[8]) {
    Nibbles(big + chunk * WordsBytes(4), v, w);
    Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA { w[s] = Codebook(kIq4Codes, w[s]); });
  }
};

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit

MOONLIT_BYTE_PRODUCT(iq4_xs, IQ4_XSCodec)
