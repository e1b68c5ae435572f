// SPDX-License-Identifier: Apache-2.0
// Products with weights of formats that are only read (MOONLIT_DECODED_FORMAT in formats.inc). A tile has the file's blocks as they
// are, [block][kTile]; pieces of it are decoded to floats on the stack and multiplied as F32 weights are, by the fast path and the exact
// one alike. So the weights take the file's bytes, and their product the time of decoding them once for up to 64 rows.
#include "kernels/matmul/layout-inl.h"
#include "kernels/matmul/products-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

constexpr size_t kValues = kDecodedPiece;  // of a block

template <size_t kBytes>
size_t DecodedTileBytes(size_t k) {
  return RoundUp(k / kValues * kTile * kBytes, 64);
}

template <size_t kBytes>
void PackDecodedTile(const uint8_t* rows, size_t row_stride, size_t valid, size_t k, uint8_t* tile) {
  const size_t blocks = k / kValues;
  for (size_t b = 0; b < blocks; ++b) {
    for (size_t n = 0; n < valid; ++n) {
      CopyBytes<kBytes>(tile + (b * kTile + n) * kBytes, rows + n * row_stride + b * kBytes);
    }
    memset(tile + (b * kTile + valid) * kBytes, 0, (kTile - valid) * kBytes);
  }
  const size_t used = blocks * kTile * kBytes;
  memset(tile + used, 0, DecodedTileBytes<kBytes>(k) - used);
}

template <Format kFormat, size_t kBytes>
void DecodeBlocks(const uint8_t* tile, size_t n, size_t k_begin, size_t count, float* values) {
  const auto dequantize = Traits(kFormat).dequantize;
  for (size_t i = 0; i < count; i += kValues) {
    dequantize(tile + ((k_begin + i) / kValues * kTile + n) * kBytes, values + i, kValues);
  }
}

template <Format kFormat, size_t kBytes>
void UnpackDecodedRow(const uint8_t* tile, size_t row, size_t k, float* values) {
  DecodeBlocks<kFormat, kBytes>(tile, row, 0, k, values);
}

template <Format kFormat, size_t kBytes>
void MultiplyBlocks(const ProductArgs& args) {
  MOONLIT_FLOATS_NS::MultiplyDecoded(args, DecodedTileBytes<kBytes>(args.k), DecodeBlocks<kFormat, kBytes>);
}

}  // namespace

#define MOONLIT_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes)
#define MOONLIT_DECODED_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes) \
  static_assert(block_values == kValues, "a block is a piece");                              \
  extern const ProductKernel kProduct_##stem;                                                \
  const ProductKernel kProduct_##stem = {"f32_decoded_" #stem,                               \
                                         Activation::kF32,                                   \
                                         Arithmetic::kF32,                                   \
                                         kTile,                                              \
                                         1,                                                  \
                                         DecodedTileBytes<block_bytes>,                      \
                                         PackDecodedTile<block_bytes>,                       \
                                         UnpackDecodedRow<Format::enumerator, block_bytes>,  \
                                         MultiplyBlocks<Format::enumerator, block_bytes>,    \
                                         MultiplyBlocks<Format::enumerator, block_bytes>};
#include "kernels/quant/formats.inc"
#undef MOONLIT_FORMAT

}  // namespace MOONLIT_NS
}  // namespace moonlit
