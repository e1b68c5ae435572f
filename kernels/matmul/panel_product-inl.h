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

// The fewest rows that go by panels. Three are a pass of four and seven one of eight, so with 3 or 7 there is no code for passes of four
// or eight beside panels. Measured on Zen 4, against passes that unpack for themselves:
//   x86_avx512_vnni: from 24 rows up to 10% faster where a block has much to unpack (Q3_K, Q5_K, Q6_K), from 64 up to 4% where it
//   has less (Q2_K, Q4_K, Q5_0), and never for Q4_0 and its like, whose unpacking is a dozen instructions beside a hundred;
//   x86_avx2: with 512 rows 3% faster for Q4_0, 8% for Q4_K, 27% for Q5_K; where there is much to unpack, eight rows are 7 to 10%
//   faster and four 5 to 8% slower.
// Two variants are for few machines, and take the way with less code. x86_avx512 (without vpdpbusd): four rows are 5 to 30% slower,
// eight 2 to 17%, sixteen as fast. x86_ssse3, whose sixteen registers hold little beside the weights anyhow: two rows are 0 to 15%
// slower (Q2_K 23%), three or four 1 (Q8_0) to 13% (Q4_K), five to fifteen 4% slower (Q4_K) to 12% faster.
// With 128-bit vectors on 64-bit Arm every pass of eight rows goes by a panel: two vectors of accumulators beside the weights do not
// fit the registers.
template <class Codec>
constexpr size_t PanelRows() {
  constexpr bool kTwoFields = sizeof(Codec::kBig) > sizeof(Field), kManyUnits = Codec::kUnits > 1;
  if (HWY_ARCH_ARM_A64 && HWY_TARGET_IS_NEON) return 7;
  if (MOONLIT_EMULATED || (HWY_ARCH_X86 && HWY_TARGET == HWY_SSSE3)) return 2;
  if (kLanes < 16) return HWY_ARCH_X86 && kTwoFields && kManyUnits ? 3 : 16;
  if (!kBiasSignedWeights) return 3;
  return kTwoFields && kManyUnits ? 24 : kTwoFields || kManyUnits ? 64 : SIZE_MAX;
}

// What a codec brings to the loops over tiles and rows, whose code is the same for all. Passes of 1 << i rows are at [i], null where
// there are none.
struct CodecPasses {
  size_t panel_rows;
  size_t units_of_block;
  size_t panel_blocks;
  size_t tile_bytes;
  void (*over_tile[kPasses])(const ProductArgs& args, size_t tile, size_t row, size_t valid) = {};
  void (*unpack_panel)(const uint8_t* tile, size_t block, size_t block_end, uint8_t* panel) = nullptr;
  PanelPass over_panel[kPasses] = {};
};

// Rows [row, row_end) of one tile, at most kBlockRows.
HWY_INLINE void MultiplyByPanels(const CodecPasses& codec, const ProductArgs& args, size_t tile, size_t row,
                                 size_t row_end) {
  HWY_ALIGN uint8_t panel[PanelBytes<LargestPanel>()];
  HWY_ALIGN float sums[(kBlockRows + kMaxRows) * kTile];  // a last pass may be wider than the rows that are left
  const size_t blocks = args.k / (kA8Group * codec.units_of_block);
  for (size_t block = 0; block < blocks; block += codec.panel_blocks) {
    const size_t block_end = block + codec.panel_blocks < blocks ? block + codec.panel_blocks : blocks;
    codec.unpack_panel(args.weights + tile * codec.tile_bytes, block, block_end, panel);
    PanelRange range = {block * codec.units_of_block, block_end * codec.units_of_block, blocks * codec.units_of_block,
                        sums};
    ForEachPass(args.a8, row, row_end, [&](size_t at, size_t valid, size_t pass) MOONLIT_INLINE_LAMBDA {
      range.sums = sums + (at - row) * kTile;
      codec.over_panel[pass](args, panel, range, tile, at, valid);
    });
  }
}

HWY_NOINLINE void MultiplyBy(const CodecPasses& codec, const ProductArgs& args) {
  for (size_t row = 0; row < args.rows; row += kBlockRows) {
    const size_t row_end = row + kBlockRows < args.rows ? row + kBlockRows : args.rows;
    for (size_t tile = args.tile_begin; tile < args.tile_end; ++tile) {
      if (row_end - row >= codec.panel_rows) {
        MultiplyByPanels(codec, args, tile, row, row_end);
      } else {
        ForEachPass(args.a8, row, row_end, [&](size_t at, size_t valid, size_t pass) MOONLIT_INLINE_LAMBDA {
          codec.over_tile[pass](args, tile, at, valid);
        });
      }
    }
  }
}

template <class Codec>
void Multiply(const ProductArgs& args) {
  CodecPasses codec = {PanelRows<Codec>(), Codec::kBlock / kA8Group, kPanelK / Codec::kBlock, TileBytes<Codec>(args.k)};
  Unroll<kPasses>([&](auto i) MOONLIT_INLINE_LAMBDA {
    constexpr size_t kRows = size_t{1} << decltype(i)::value;
    if constexpr (kRows < PanelRows<Codec>()) codec.over_tile[i] = ProductOf<Codec, kRows>;
    if constexpr (PanelRows<Codec>() <= kBlockRows) codec.over_panel[i] = PassOverPanel<InPanel<Codec>, kRows>;
  });
  if constexpr (PanelRows<Codec>() <= kBlockRows) codec.unpack_panel = UnpackPanel<Codec>;
  MultiplyBy(codec, args);
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
