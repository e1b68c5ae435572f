// SPDX-License-Identifier: Apache-2.0
// What one architecture is: three functions. Each file of this folder defines one or more; models/registry.cc lists them.
#pragma once

#include "models/common/blocks.h"
#include "models/common/config.h"
#include "models/common/rope_config.h"
#include "models/common/weight_binder.h"
#include "runtime/base/status.h"
#include "runtime/graph/graph.h"

namespace moonlit {

struct Architecture {
  const char* name;  // general.architecture
  Result<ModelConfig> (*read_config)(const Metadata& metadata, const WeightSource& source);
  // Binds every weight and builds the graph. Faults of weights are in bind.status(), faults of shapes in graph.Finish().
  void (*build_graph)(const ModelConfig& config, WeightBinder& bind, Graph& graph);
};

}  // namespace moonlit
