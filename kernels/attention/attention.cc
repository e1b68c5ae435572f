// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention.h"

#include "kernels/base/check.h"

namespace moonlit {

#define MOONLIT_TABLE AttentionTable
#define MOONLIT_TABLE_CLASS VARIANT
#include "kernels/cpu/variant_table.inc"

CacheType DefaultCacheType(Variant variant) {
  return (VariantFeatures(variant) & (kAvx512Bf16 | kBf16)) != 0 ? CacheType::kBF16 : CacheType::kF16;
}

}  // namespace moonlit
