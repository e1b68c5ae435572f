// SPDX-License-Identifier: Apache-2.0
// Products with MXFP4 weights. A block: the exponent e of a power of two; 16 bytes of nibbles (E2M1, doubled
// here to be whole numbers), value = 2^(e - 128) * code. OCP Microscaling Formats 1.0.
#include "kernels/matmul/bytes_kernel-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

alignas(16) constexpr int8_t kDoubledE2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

struct MXFP4Codec {
  static constexpr Format kFormat = Format::kMXFP4;
  static constexpr size_t kBlock = 32, kBytes = 17;
  static constexpr size_t kChunks = 1, kUnits = 1, kParts = 1;
  static constexpr bool kHasMin = false, kSigned = true;
  static constexpr int kBound = 12, kOffset = 0;
  static constexpr Field kSmall[] = {{FieldKind::kByte, 0, 1}};
  static constexpr Field kBig[] = {{FieldKind::kWord, 1, 4}};

  // Half of the power, because the codes are doubled. Exponents 0 and 1 give numbers below the normal ones, 255 is NaN.
  static HWY_INLINE void Scales(const uint8_t* small, size_t v, VF32* scale, VF32*) {
    const DU32 du32;
    const VU32 e = Bytes(small, 0, v);
    const VU32 tiny = hn::ShiftLeft<21>(hn::Add(e, hn::Set(du32, 1)));
    VU32 bits = hn::ShiftLeft<23>(hn::Sub(e, hn::Set(du32, 1)));
    bits = hn::IfThenElse(hn::Lt(e, hn::Set(du32, 2)), tiny, bits);
    bits = hn::IfThenElse(hn::Eq(e, hn::Set(du32, 255)), hn::Set(du32, 0x7FC00000u), bits);
    scale[0] = hn::BitCast(DF32(), bits);
  }

  template <size_t kUnit>
  static HWY_INLINE void Weights(const uint8_t*, const uint8_t* big, size_t, size_t v, VU8 (&w)[8]) {
    Nibbles(big, v, w);
    Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA { w[s] = Codebook(kDoubledE2M1, w[s]); });
  }
};

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit

MOONLIT_BYTE_PRODUCT(mxfp4, MXFP4Codec)
