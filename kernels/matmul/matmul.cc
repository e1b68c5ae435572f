// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/matmul.h"

#include "kernels/base/check.h"

namespace moonlit {

#define MOONLIT_BUILT_VARIANT(name, bytes, halves, floats)                                         \
  namespace name {                                                                                 \
  extern const ProductKernel* const kProducts[];                                                   \
  }                                                                                                \
  namespace bytes {                                                                                \
  void QuantizeA8(const float* x, size_t x_stride, size_t rows, size_t k, const A8View& out);      \
  void QuantizeA8Twice(const float* x, size_t x_stride, size_t rows, size_t k, const A8View& out); \
  }
#include "moonlit/variants_built.inc"
#undef MOONLIT_BUILT_VARIANT

namespace {

constexpr size_t kFormats = sizeof(kAllFormats) / sizeof(kAllFormats[0]);

// Copied at first use: in every variant's object there are only addresses, because no code of a variant may run before it
// is known that the CPU can.
struct Tables {
  static constexpr Variant kVariants[] = {
#define MOONLIT_BUILT_VARIANT(name, bytes, halves, floats) Variant::name,
#include "moonlit/variants_built.inc"
#undef MOONLIT_BUILT_VARIANT
  };
  static constexpr size_t kCount = sizeof(kVariants) / sizeof(kVariants[0]);

  Tables() {
    size_t v = 0;
#define MOONLIT_BUILT_VARIANT(name, bytes, halves, floats)                          \
  for (size_t f = 0; f < kFormats; ++f) tables[v].kernels[f] = *name::kProducts[f]; \
  tables[v].quantize_a8 = bytes::QuantizeA8;                                        \
  tables[v++].quantize_a8_twice = bytes::QuantizeA8Twice;
#include "moonlit/variants_built.inc"
#undef MOONLIT_BUILT_VARIANT
  }

  ProductTable tables[kCount];
};

}  // namespace

const ProductTable& GetProductTable(Variant variant) {
  static const Tables tables;
  for (size_t v = 0; v < Tables::kCount; ++v) {
    if (Tables::kVariants[v] == variant) return tables.tables[v];
  }
  MOONLIT_CHECK(IsBuilt(variant));
  return tables.tables[0];
}

}  // namespace moonlit
