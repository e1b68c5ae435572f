// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attend-inl.h"
#include "kernels/attention/pack-inl.h"

namespace moonlit {
namespace MOONLIT_NS {

extern const AttentionTable kAttentionTable;
const AttentionTable kAttentionTable = {&ScratchBytes, &Attend, &AttendSegment, &Merge,
                                        &Fold,         &Finish, &PackKeys,      &PackValues};

}  // namespace MOONLIT_NS
}  // namespace moonlit
