// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/linear_attention.h"

#include "kernels/base/check.h"

namespace moonlit {

#define MOONLIT_TABLE LinearAttentionTable
#define MOONLIT_TABLE_CLASS FLOATS
#include "kernels/cpu/variant_table.inc"

}  // namespace moonlit
