// SPDX-License-Identifier: Apache-2.0
// The products of one variant, in the order of Format.
#include "kernels/matmul/products-inl.h"

namespace moonlit {
namespace MOONLIT_NS {

const ProductKernel* const kProducts[] = {
#define MOONLIT_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes) &kProduct_##stem,
#include "kernels/quant/formats.inc"
#undef MOONLIT_FORMAT
};

}  // namespace MOONLIT_NS
}  // namespace moonlit
