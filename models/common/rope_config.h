// SPDX-License-Identifier: Apache-2.0
// RoPE's keys: dimension_count, freq_base, scaling (none, linear, YaRN).
#pragma once

#include <cstddef>

#include "models/common/config_reader.h"
#include "runtime/graph/graph.h"

namespace moonlit {

// The spec without pairs and divisors, which are the architecture's. Faults go to the reader.
RopeSpec ReadRopeSpec(ConfigReader& reader, size_t key_dim, size_t n_ctx_train);

}  // namespace moonlit
