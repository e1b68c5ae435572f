// SPDX-License-Identifier: Apache-2.0
// Products with Q4_K weights. A block: f16 d, dmin; 12 bytes with eight 6-bit scales and minima; 128 bytes, low
// nibbles of each 32 before the high ones. value = d * scale * nibble - dmin * min.
#include "kernels/matmul/bytes_kernel-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

struct Q4_KCodec {
  static constexpr Format kFormat = Format::kQ4_K;
  static constexpr size_t kBlock = 256, kBytes = 144;
  static constexpr size_t kChunks = 4, kUnits = 2, kParts = 1;
  static constexpr bool kHasMin = true, kSigned = false;
  static constexpr int kBound = 15, kOffset = 0;
  static constexpr Field kSmall[] = {{FieldKind::kHalf, 0, 2}, {FieldKind::kWord, 4, 3}};
  static constexpr Field kBig[] = {{FieldKind::kWord, 16, 32}};

  static HWY_INLINE void Scales(const uint8_t* small, size_t v, VF32* scale, VF32* min) {
    SixBitScalesAndMins(small, v, scale, min);
  }

  template <size_t kUnit>
  static HWY_INLINE void Weights(const uint8_t*, const uint8_t* big, size_t chunk, size_t v, VU8 (&w)[8]) {
    Unroll<8>([&](auto s)
                  MOONLIT_INLINE_LAMBDA { w[s] = ShiftAndMask<4 * kUnit>(Words(big, chunk * 8 + s, v), 0x0F); });
  }
};

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit

MOONLIT_BYTE_PRODUCT(q4_k, Q4_KCodec)
