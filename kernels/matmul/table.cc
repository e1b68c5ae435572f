// SPDX-License-Identifier: Apache-2.0
// The products of one variant, in the order of Format, wherever they were compiled (CMakeLists.txt).
#include "kernels/matmul/products-inl.h"

namespace moonlit {

#define MOONLIT_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes) \
  namespace MOONLIT_BYTES_NS {                                                       \
  extern const ProductKernel kProduct_##stem;                                        \
  }                                                                                  \
  namespace MOONLIT_HALVES_NS {                                                      \
  extern const ProductKernel kProduct_##stem;                                        \
  }                                                                                  \
  namespace MOONLIT_FLOATS_NS {                                                      \
  extern const ProductKernel kProduct_##stem;                                        \
  }
#include "kernels/quant/formats.inc"
#undef MOONLIT_FORMAT

namespace MOONLIT_NS {

// Of a block format, and of one that is only read. F16 and BF16 go by bf16 dots where there are any.
#define MOONLIT_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes)                                \
  Format::enumerator == Format::kF32                                          ? &MOONLIT_FLOATS_NS::kProduct_##stem \
  : Format::enumerator == Format::kF16 || Format::enumerator == Format::kBF16 ? &MOONLIT_HALVES_NS::kProduct_##stem \
                                                                              : &MOONLIT_BYTES_NS::kProduct_##stem,
#define MOONLIT_DECODED_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes) \
  &MOONLIT_FLOATS_NS::kProduct_##stem,
const ProductKernel* const kProducts[] = {
#include "kernels/quant/formats.inc"
};
#undef MOONLIT_FORMAT

}  // namespace MOONLIT_NS
}  // namespace moonlit
