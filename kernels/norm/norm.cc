// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/norm.h"

#include "kernels/base/check.h"

namespace moonlit {

#define MOONLIT_TABLE NormTable
#define MOONLIT_TABLE_CLASS FLOATS
#include "kernels/cpu/variant_table.inc"

}  // namespace moonlit
