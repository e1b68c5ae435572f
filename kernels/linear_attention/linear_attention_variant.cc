// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/conv-inl.h"
#include "kernels/linear_attention/recurrence-inl.h"

namespace moonlit {
namespace MOONLIT_NS {

extern const LinearAttentionTable kLinearAttentionTable;
const LinearAttentionTable kLinearAttentionTable = {&Recur<false>, &Recur<true>, &ShortConv, &Decay};

}  // namespace MOONLIT_NS
}  // namespace moonlit
