// SPDX-License-Identifier: Apache-2.0
// Blocks that are made of ops: no kernel, no stage of their own. The fusion pass (fusion.h) sees the ops and finds the fast form.
#pragma once

#include "runtime/graph/graph.h"

namespace moonlit {

// down(silu(gate x) * up x), Shazeer 2020 (arXiv:2002.05202). x: [tokens, d]; gate, up: [ffn, d]; down: [d, ffn].
ValueId GatedFeedForward(Graph& graph, ValueId x, WeightId gate, WeightId up, WeightId down,
                         ActivationKind kind = ActivationKind::kSilu);

// The RMS norm of each of `heads` equal parts of x, times the weight (as wide as one part) and silu(gate): what follows the heads of
// a gated delta rule. x, gate: [tokens, heads * n]; weight: [n].
ValueId GatedHeadNorm(Graph& graph, ValueId x, ValueId gate, size_t heads, WeightId weight, float eps);

}  // namespace moonlit
