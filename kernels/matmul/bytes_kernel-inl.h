// SPDX-License-Identifier: Apache-2.0
// What a matmul_<stem>.cc of a block format is written with. Its last line, MOONLIT_BYTE_PRODUCT(stem, Codec), makes
// `kProduct_<stem>`; table.cc finds it through formats.inc. Names of codecs differ: several files may be one object.
#pragma once

#include "kernels/matmul/lanes-inl.h"
#include "kernels/matmul/panel_product-inl.h"
#include "kernels/matmul/products-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

template <class Codec>
void MultiplyExact(const ProductArgs& args) {
  static_assert(kDecodedPiece % Codec::kBlock == 0, "pieces are whole blocks");
  MOONLIT_FLOATS_NS::MultiplyDecoded(args, TileBytes<Codec>(args.k), UnpackRange<Codec>);
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
#define MOONLIT_BYTE_TILE "8x16x4"
#elif HWY_ARCH_ARM_A64 && HWY_TARGET_IS_NEON
#define MOONLIT_BYTE_TILE "8x8x4"
#elif MOONLIT_EMULATED
#define MOONLIT_BYTE_TILE "1x4x4"
#else
#define MOONLIT_BYTE_TILE "4x8x4"
#endif

#define MOONLIT_BYTE_PRODUCT(stem, Codec)                                   \
  namespace moonlit {                                                       \
  namespace MOONLIT_NS {                                                    \
  extern const ProductKernel kProduct_##stem;                               \
  const ProductKernel kProduct_##stem = {"a8_" #stem "_" MOONLIT_BYTE_TILE, \
                                         Activation::kA8,                   \
                                         Arithmetic::kInt8,                 \
                                         kTile,                             \
                                         4,                                 \
                                         TileBytes<Codec>,                  \
                                         PackTile<Codec>,                   \
                                         UnpackRow<Codec>,                  \
                                         Multiply<Codec>,                   \
                                         MultiplyExact<Codec>};             \
  }                                                                         \
  }
