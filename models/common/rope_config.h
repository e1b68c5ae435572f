// SPDX-License-Identifier: Apache-2.0
// RoPE's keys: dimension_count, freq_base, scaling (none, linear, YaRN).
#pragma once

#include <cstddef>

#include "models/common/config.h"
#include "models/common/config_reader.h"
#include "models/common/weight_binder.h"
#include "runtime/graph/graph.h"

namespace moonlit {

// The spec without pairs and divisors, which are the architecture's. Faults go to the reader.
RopeSpec ReadRopeSpec(ConfigReader& reader, size_t key_dim, size_t n_ctx_train);

// The same rotation as it was before the context was stretched: what local layers keep.
RopeSpec UnscaledRope(const RopeSpec& rope);

// LongRoPE (Ding et al. 2024, arXiv:2402.13753): binds rope_factors_long or rope_factors_short as divisors, where the file has them, by
// whether the model is made for more than the context it was first trained for.
void BindLongRope(WeightBinder& bind, ModelConfig& config);

}  // namespace moonlit
