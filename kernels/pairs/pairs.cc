// SPDX-License-Identifier: Apache-2.0
#include "kernels/pairs/pairs.h"

#include "kernels/base/check.h"

namespace moonlit {

#define MOONLIT_TABLE PairTable
#define MOONLIT_TABLE_CLASS FLOATS
#include "kernels/cpu/variant_table.inc"

}  // namespace moonlit
