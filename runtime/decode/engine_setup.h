// SPDX-License-Identifier: Apache-2.0
// What an engine is made of, worked out from its options: Engine::Create allocates it, Engine::Measure only counts.
#pragma once

#include "runtime/decode/engine.h"

namespace moonlit {

// Sets what the options leave open. kInvalidArgument names the option and its range.
Status FillDefaults(const ModelFacts& facts, Variant variant, EngineOptions& options);

// REQUIRES: defaults are filled in.
Result<PlanOptions> MakePlanOptions(const EngineOptions& options, Variant variant);

// Pages of the groups, and how far they look back; states. Returns whether some group gives pages back.
bool PlanPages(const Plan& plan, const EngineOptions& options, PagePoolOptions& pages);

// All but cache and states.
MemoryUse ToMemoryUse(const PlanSize& size);

}  // namespace moonlit
