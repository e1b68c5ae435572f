// SPDX-License-Identifier: Apache-2.0
// Products of any number of rows. Where a pass holds few rows, or a codec has much to unpack, many rows go by panels: a tile's
// weights for a part of K are unpacked once into the first-level cache, scales and all, and used for every pass. Between
// panels the accumulators lie in memory, as floats, which loses nothing.
#pragma once

#include "kernels/cpu/variant-inl.h"
#if MOONLIT_HAS_SMMLA
#include "kernels/matmul/smmla_panel-inl.h"
#else
#include "kernels/matmul/vector_panel-inl.h"
#endif

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// The fewest rows that go by panels. Measured on Zen 4, against passes that unpack for themselves:
//   x86_avx2: with 512 rows 3% faster for Q4_0, 8% for Q4_K, 27% for Q5_K;
//   x86_avx512_vnni: from 24 rows up to 10% faster where a block has much to unpack (Q3_K, Q5_K, Q6_K), from 64 up to 4% where it
//   has less (Q2_K, Q4_K, Q5_0), and never for Q4_0 and its like, whose unpacking is a dozen instructions beside a hundred;
//   x86_avx512: as fast from 16 rows, 2 to 17% slower for one pass of eight, which then needs no code of its own.
// With 128-bit vectors on 64-bit Arm every pass of eight rows goes by a panel: two vectors of accumulators beside the weights do not
// fit the registers. Seven rows are a pass of eight.
// Where every pass that is worth unpacking for goes by a panel, there is less code: with SSSE3, whose sixteen registers hold little
// beside the weights anyhow, three or four rows are 1 (Q8_0) to 13% (Q4_K) slower, and five to fifteen 4% slower (Q4_K) to 12% faster.
template <class Codec>
constexpr size_t PanelRows() {
  if (HWY_ARCH_ARM_A64 && HWY_TARGET_IS_NEON) return kMaxRows - 1;
  if (HWY_ARCH_X86 && HWY_TARGET == HWY_SSSE3) return 3;
  if (MOONLIT_EMULATED) return 2;
  if (kLanes < 16) return 4 * kMaxRows;
  if (!kBiasSignedWeights) return kMaxRows - 1;
  constexpr bool kTwoFields = sizeof(Codec::kBig) > sizeof(Field), kManyUnits = Codec::kUnits > 1;
  return kTwoFields && kManyUnits ? 3 * kMaxRows : kTwoFields || kManyUnits ? 8 * kMaxRows : SIZE_MAX;
}

// Rows [row, row_end) of one tile, at most kBlockRows.
template <class Codec>
HWY_INLINE void MultiplyByPanels(const ProductArgs& args, size_t tile, size_t row, size_t row_end) {
  constexpr size_t kUnitsOfBlock = Codec::kBlock / kA8Group;
  HWY_ALIGN uint8_t panel[PanelBytes<Codec>()];
  HWY_ALIGN float sums[(kBlockRows + kMaxRows) * kTile];  // a last pass may be wider than the rows that are left
  const size_t blocks = args.k / Codec::kBlock;
  for (size_t block = 0; block < blocks; block += PanelBlocks<Codec>()) {
    const size_t block_end = block + PanelBlocks<Codec>() < blocks ? block + PanelBlocks<Codec>() : blocks;
    UnpackPanel<Codec>(args.weights + tile * TileBytes<Codec>(args.k), block, block_end, panel);
    PanelRange range = {block * kUnitsOfBlock, block_end * kUnitsOfBlock, blocks * kUnitsOfBlock, sums};
    ForEachPass(args.a8, row, row_end, [&](size_t at, size_t valid, auto pass) MOONLIT_INLINE_LAMBDA {
      range.sums = sums + (at - row) * kTile;
      PassOverPanel<InPanel<Codec>, decltype(pass)::value>(args, panel, range, tile, at, valid);
    });
  }
}

template <class Codec>
void Multiply(const ProductArgs& args) {
  for (size_t row = 0; row < args.rows; row += kBlockRows) {
    const size_t row_end = row + kBlockRows < args.rows ? row + kBlockRows : args.rows;
    for (size_t tile = args.tile_begin; tile < args.tile_end; ++tile) {
      if constexpr (PanelRows<Codec>() <= kBlockRows) {
        if (row_end - row >= PanelRows<Codec>()) {
          MultiplyByPanels<Codec>(args, tile, row, row_end);
          continue;
        }
      }
      ForEachPass(args.a8, row, row_end, [&](size_t at, size_t valid, auto pass) MOONLIT_INLINE_LAMBDA {
        constexpr size_t kRows = decltype(pass)::value;
        if constexpr (kRows < PanelRows<Codec>()) ProductOf<Codec, kRows>(args, tile, at, valid);
      });
    }
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
