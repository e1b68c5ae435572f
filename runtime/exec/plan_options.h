// SPDX-License-Identifier: Apache-2.0
// Whether a plan can be made with these options at all, before anything is laid out.
#pragma once

#include "runtime/exec/plan.h"

namespace moonlit {

// kInvalidArgument with what is expected; kUnsupported for a kernel variant that this build lacks.
Status CheckPlanOptions(const PlanOptions& options);

}  // namespace moonlit
