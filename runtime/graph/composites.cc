// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph/composites.h"

namespace moonlit {

ValueId GatedFeedForward(Graph& graph, ValueId x, WeightId gate, WeightId up, WeightId down, ActivationKind kind) {
  const ValueId gate_value = graph.Linear(x, gate);
  const ValueId up_value = graph.Linear(x, up);
  return graph.Linear(graph.Gate(gate_value, up_value, kind), down);
}

ValueId GatedHeadNorm(Graph& graph, ValueId x, ValueId gate, size_t heads, WeightId weight, float eps) {
  const ValueId normed = graph.Norm(x, {.kind = NormKind::kRms, .eps = eps, .heads = heads, .weight = weight});
  return graph.Gate(gate, normed, ActivationKind::kSilu);
}

}  // namespace moonlit
