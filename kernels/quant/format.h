// SPDX-License-Identifier: Apache-2.0
// Block formats of weights: names, sizes, and the scalar code that defines what the bytes mean. These scalar functions
// are the truth that packed kernels are tested against; they are compiled once, without contraction, so their bits do
// not depend on the machine.
//
//   const FormatTraits& t = Traits(Format::kQ4_0);
//   t.dequantize(bytes, values, k);        // k values of one row
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/quant/codes.h"

namespace moonlit {

enum class Format : uint8_t {
#define MOONLIT_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes) enumerator,
#include "kernels/quant/formats.inc"
#undef MOONLIT_FORMAT
};

inline constexpr Format kAllFormats[] = {
#define MOONLIT_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes) Format::enumerator,
#include "kernels/quant/formats.inc"
#undef MOONLIT_FORMAT
};

// Those that have an encoder and whole-number codes.
inline constexpr Format kEncodedFormats[] = {
#define MOONLIT_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes) Format::enumerator,
#define MOONLIT_DECODED_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes)
#include "kernels/quant/formats.inc"
#undef MOONLIT_FORMAT
};

struct FormatTraits {
  const char* name;  // as in GGUF tools, for example "Q4_K"
  uint32_t gguf_type;
  uint32_t block_values;  // a row's length must be a multiple of it
  uint32_t block_bytes;
  // Decodes k values (a multiple of block_values). `bytes` may be unaligned. Non-finite scales give non-finite values.
  void (*dequantize)(const uint8_t* bytes, float* values, size_t k);
  // Encodes k finite values; null for formats that can only be read. `importance`: [k] weights of the squared error, or
  // null.
  void (*quantize)(const float* values, const float* importance, uint8_t* bytes, size_t k);
  // One block as whole numbers with scales. Null for the formats without blocks (block_values is 1) and those that
  // are only read.
  void (*codes)(const uint8_t* block, BlockCodes* codes);
};

const FormatTraits& Traits(Format format);
// False when no format has the GGUF type id.
bool FindFormat(uint32_t gguf_type, Format* format);
// Name in any case ("q4_k", "Q4_K"); false when unknown.
bool FindFormatByName(const char* name, Format* format);

// Bytes of a row of k values. REQUIRES: k is a multiple of block_values (loaders check it first).
inline size_t RowBytes(Format format, size_t k) {
  const FormatTraits& t = Traits(format);
  return k / t.block_values * t.block_bytes;
}

}  // namespace moonlit
