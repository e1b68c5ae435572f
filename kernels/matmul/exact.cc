// SPDX-License-Identifier: Apache-2.0
// The exact product of a block format: pieces of a tile are decoded to floats on the stack and multiplied as F32 weights are.
// Compiled once a variant for all formats.
#include "kernels/matmul/float_product-inl.h"
#include "kernels/matmul/products-inl.h"

namespace moonlit {
namespace MOONLIT_NS {

void MultiplyDecoded(const ProductArgs& args, size_t tile_bytes, DecodeRange decode) {
  constexpr size_t kPiece = kDecodedPiece;
  HWY_ALIGN float sums[kStackRows * kTile];
  HWY_ALIGN float weights[kPiece * kTile];
  HWY_ALIGN float packed[kFloatRows * kPiece];
  float values[kPiece];
  for (size_t row = 0; row < args.rows; row += kStackRows) {
    const size_t count = args.rows - row < kStackRows ? args.rows - row : kStackRows;
    for (size_t tile = args.tile_begin; tile < args.tile_end; ++tile) {
      memset(sums, 0, sizeof(sums));
      for (size_t begin = 0; begin < args.k; begin += kPiece) {
        const size_t piece = args.k - begin < kPiece ? args.k - begin : kPiece;
        for (size_t n = 0; n < kTile; ++n) {
          decode(args.weights + tile * tile_bytes, n, begin, piece, values);
          for (size_t i = 0; i < piece; ++i) weights[i * kTile + n] = values[i];
        }
        for (size_t r = 0; r < count; r += kFloatRows) {
          const size_t rows = count - r < kFloatRows ? count - r : kFloatRows;
          PackRows(args.x + (row + r) * args.x_stride + begin, args.x_stride, rows, piece, packed);
          AddPackedRows<LoadF32>(packed, rows, reinterpret_cast<const uint8_t*>(weights), piece, sums + r * kTile);
        }
      }
      StoreSums(args, tile, row, count, sums, kTile);
    }
  }
}

}  // namespace MOONLIT_NS
}  // namespace moonlit
