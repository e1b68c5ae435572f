// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/format.h"

#include "kernels/base/check.h"

namespace moonlit {

// Each header of a format declares these; the list knows their names, so no second list of headers is needed here.
#define MOONLIT_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes)     \
  namespace stem {                                                                       \
  void Dequantize(const uint8_t* bytes, float* values, size_t k);                        \
  void Quantize(const float* values, const float* importance, uint8_t* bytes, size_t k); \
  void Codes(const uint8_t* block, BlockCodes* codes);                                   \
  }
#define MOONLIT_DECODED_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes) \
  namespace stem {                                                                           \
  void Dequantize(const uint8_t* bytes, float* values, size_t k);                            \
  }
#include "kernels/quant/formats.inc"
#undef MOONLIT_FORMAT

namespace {

constexpr FormatTraits kTraits[] = {
#define MOONLIT_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes) \
  {name,                                                                             \
   gguf_type,                                                                        \
   block_values,                                                                     \
   block_bytes,                                                                      \
   stem::Dequantize,                                                                 \
   stem::Quantize,                                                                   \
   block_values > 1 ? stem::Codes : nullptr},
#define MOONLIT_DECODED_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes) \
  {name, gguf_type, block_values, block_bytes, stem::Dequantize, nullptr, nullptr},
#include "kernels/quant/formats.inc"
#undef MOONLIT_FORMAT
};

// Names are ASCII; the C library's functions would ask the locale.
char Upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool SameName(const char* a, const char* b) {
  while (*a != '\0' && Upper(*a) == Upper(*b)) ++a, ++b;
  return *a == '\0' && *b == '\0';
}

}  // namespace

const FormatTraits& Traits(Format format) {
  const size_t index = static_cast<size_t>(format);
  MOONLIT_DCHECK(index < sizeof(kTraits) / sizeof(kTraits[0]));
  return kTraits[index];
}

bool FindFormat(uint32_t gguf_type, Format* format) {
  for (Format candidate : kAllFormats) {
    if (Traits(candidate).gguf_type == gguf_type) {
      *format = candidate;
      return true;
    }
  }
  return false;
}

bool FindFormatByName(const char* name, Format* format) {
  for (Format candidate : kAllFormats) {
    if (SameName(Traits(candidate).name, name)) {
      *format = candidate;
      return true;
    }
  }
  return false;
}

}  // namespace moonlit
