// SPDX-License-Identifier: Apache-2.0
// The last line of every matmul_<stem>.cc: MOONLIT_BYTE_PRODUCT(stem) makes `kProduct_<stem>` of `Codec`,
// MOONLIT_FLOAT_PRODUCT(stem, format, Load) of a loader. `table.cc` finds them through formats.inc.
#pragma once

#include "kernels/matmul/bytes_product-inl.h"
#include "kernels/matmul/float_product-inl.h"
#include "kernels/matmul/lanes-inl.h"

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
#define MOONLIT_BYTE_TILE "16x16x4"
#define MOONLIT_FLOAT_TILE "16x16x1"
#elif HWY_ARCH_ARM_A64 && HWY_TARGET_IS_NEON
#define MOONLIT_BYTE_TILE "8x8x4"
#define MOONLIT_FLOAT_TILE "4x8x1"
#elif MOONLIT_EMULATED
#define MOONLIT_BYTE_TILE "2x4x4"
#define MOONLIT_FLOAT_TILE "4x4x1"
#else
#define MOONLIT_BYTE_TILE "4x8x4"
#define MOONLIT_FLOAT_TILE "4x8x1"
#endif

#define MOONLIT_BYTE_PRODUCT(stem)                                          \
  namespace moonlit {                                                       \
  namespace MOONLIT_NS {                                                    \
  extern const ProductKernel kProduct_##stem;                               \
  const ProductKernel kProduct_##stem = {"a8_" #stem "_" MOONLIT_BYTE_TILE, \
                                         Activation::kA8,                   \
                                         kTile,                             \
                                         4,                                 \
                                         TileBytes<Codec>,                  \
                                         PackTile<Codec>,                   \
                                         UnpackRow<Codec>,                  \
                                         Multiply<Codec>,                   \
                                         MultiplyExact<Codec>};             \
  }                                                                         \
  }

#define MOONLIT_FLOAT_PRODUCT(stem, format, Load)                             \
  namespace moonlit {                                                         \
  namespace MOONLIT_NS {                                                      \
  extern const ProductKernel kProduct_##stem;                                 \
  const ProductKernel kProduct_##stem = {"f32_" #stem "_" MOONLIT_FLOAT_TILE, \
                                         Activation::kF32,                    \
                                         kTile,                               \
                                         1,                                   \
                                         FloatTileBytes<Load>,                \
                                         PackFloatTile<Load>,                 \
                                         UnpackFloatRow<Load, format>,        \
                                         MultiplyFloats<Load>,                \
                                         MultiplyFloats<Load>};               \
  }                                                                           \
  }
