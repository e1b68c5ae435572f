// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/codebooks.h"

namespace moonlit::codebooks {

#include "kernels/quant/codebook_tables.inc"

}  // namespace moonlit::codebooks
