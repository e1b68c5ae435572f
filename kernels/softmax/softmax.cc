// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax/softmax.h"

#include "kernels/base/check.h"

namespace moonlit {

#define MOONLIT_TABLE SoftmaxTable
#include "kernels/cpu/variant_table.inc"

}  // namespace moonlit
