// SPDX-License-Identifier: Apache-2.0
// The last line of a matmul_<stem>.cc of a format without blocks makes `kProduct_<stem>`; table.cc finds it through formats.inc:
//   MOONLIT_FLOAT_PRODUCT(stem, format, Load)           f32 arithmetic
//   MOONLIT_HALF_PRODUCT(stem, format, Load, Weights)   by bf16 dot products where the variant has them, else f32
#pragma once

#include "kernels/cpu/variant-inl.h"
#if MOONLIT_HAS_VDPBF16 || MOONLIT_HAS_BFDOT
#include "kernels/matmul/bf16_product-inl.h"
#else
#include "kernels/matmul/float_product-inl.h"
#endif

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
#define MOONLIT_FLOAT_TILE "16x16x1"
#elif HWY_ARCH_ARM_A64 && HWY_TARGET_IS_NEON
#define MOONLIT_FLOAT_TILE "4x8x1"
#elif MOONLIT_EMULATED
#define MOONLIT_FLOAT_TILE "4x4x1"
#else
#define MOONLIT_FLOAT_TILE "4x8x1"
#endif

#define MOONLIT_FLOAT_PRODUCT(stem, format, Load)                             \
  namespace moonlit {                                                         \
  namespace MOONLIT_NS {                                                      \
  extern const ProductKernel kProduct_##stem;                                 \
  const ProductKernel kProduct_##stem = {"f32_" #stem "_" MOONLIT_FLOAT_TILE, \
                                         Activation::kF32,                    \
                                         Arithmetic::kF32,                    \
                                         kTile,                               \
                                         1,                                   \
                                         FloatTileBytes<Load>,                \
                                         PackFloatTile<Load>,                 \
                                         UnpackFloatRow<Load, format>,        \
                                         MultiplyFloats<Load>,                \
                                         MultiplyFloats<Load>};               \
  }                                                                           \
  }

#if MOONLIT_HAS_VDPBF16 || MOONLIT_HAS_BFDOT
#if MOONLIT_HAS_VDPBF16
#define MOONLIT_PAIR_TILE "16x16x2"
#else
#define MOONLIT_PAIR_TILE "8x8x2"
#endif
#define MOONLIT_HALF_PRODUCT(stem, format, Load, Weights)                     \
  namespace moonlit {                                                         \
  namespace MOONLIT_NS {                                                      \
  extern const ProductKernel kProduct_##stem;                                 \
  const ProductKernel kProduct_##stem = {"bf16_" #stem "_" MOONLIT_PAIR_TILE, \
                                         Activation::kF32,                    \
                                         Arithmetic::kBF16,                   \
                                         kTile,                               \
                                         2,                                   \
                                         PairTileBytes<Weights>,              \
                                         PackPairTile<Weights>,               \
                                         UnpackPairRow<Weights>,              \
                                         MultiplyPairs<Weights>,              \
                                         MultiplyPairsExact<Weights>};        \
  }                                                                           \
  }
#else
#define MOONLIT_HALF_PRODUCT(stem, format, Load, Weights) MOONLIT_FLOAT_PRODUCT(stem, format, Load)
#endif
