// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention.h"

#include "kernels/base/check.h"

namespace moonlit {

#define MOONLIT_BUILT_VARIANT(name)            \
  namespace name {                             \
  extern const AttentionTable kAttentionTable; \
  }
#include "moonlit/variants_built.inc"
#undef MOONLIT_BUILT_VARIANT

const AttentionTable& GetAttentionTable(Variant variant) {
  switch (variant) {
#define MOONLIT_BUILT_VARIANT(name) \
  case Variant::name:               \
    return name::kAttentionTable;
#include "moonlit/variants_built.inc"
#undef MOONLIT_BUILT_VARIANT
    default:
      break;
  }
  fprintf(stderr, "kernels/attention: variant %s is not in this build\n", VariantName(variant));
  abort();
}

CacheType DefaultCacheType(Variant variant) {
  return (VariantFeatures(variant) & (kAvx512Bf16 | kBf16)) != 0 ? CacheType::kBF16 : CacheType::kF16;
}

}  // namespace moonlit
