// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attend-inl.h"

namespace moonlit {
namespace MOONLIT_NS {

extern const AttentionTable kAttentionTable;
const AttentionTable kAttentionTable = {&ScratchBytes,
                                        &Attend,
                                        &AttendSegment,
                                        &MOONLIT_FLOATS_NS::Merge,
                                        &MOONLIT_FLOATS_NS::Fold,
                                        &MOONLIT_FLOATS_NS::Finish,
                                        &MOONLIT_FLOATS_NS::PackKeys,
                                        &MOONLIT_FLOATS_NS::PackValues};

}  // namespace MOONLIT_NS
}  // namespace moonlit
