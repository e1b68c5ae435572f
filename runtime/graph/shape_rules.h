// SPDX-License-Identifier: Apache-2.0
// One function a shape rule of ops.inc: checks a node's inputs and weights against each other and gives the output's width.
#pragma once

#include <cstddef>

#include "runtime/base/status.h"
#include "runtime/graph/graph.h"

namespace moonlit {

// REQUIRES: numbers of inputs and weights are within ops.inc's limits and all ids exist. Errors (kCorrupt: sizes come from
// files) name the weight or width, expected and found.
Result<size_t> EmbedShape(const Graph& graph, const Node& node);
Result<size_t> AddPositionsShape(const Graph& graph, const Node& node);
Result<size_t> NormShape(const Graph& graph, const Node& node);
Result<size_t> LinearShape(const Graph& graph, const Node& node);
Result<size_t> AttentionShape(const Graph& graph, const Node& node);
Result<size_t> SharedAttentionShape(const Graph& graph, const Node& node);
Result<size_t> AddShape(const Graph& graph, const Node& node);
Result<size_t> GateShape(const Graph& graph, const Node& node);
Result<size_t> ActivationShape(const Graph& graph, const Node& node);
Result<size_t> ScaleShape(const Graph& graph, const Node& node);
Result<size_t> ClampShape(const Graph& graph, const Node& node);
Result<size_t> ColumnsShape(const Graph& graph, const Node& node);
Result<size_t> SigmoidGateShape(const Graph& graph, const Node& node);
Result<size_t> ExpertsShape(const Graph& graph, const Node& node);
Result<size_t> ShortConvShape(const Graph& graph, const Node& node);
Result<size_t> LinearAttentionShape(const Graph& graph, const Node& node);
Result<size_t> GatedDeltaShape(const Graph& graph, const Node& node);
Result<size_t> DecayShape(const Graph& graph, const Node& node);
Result<size_t> SigmoidShape(const Graph& graph, const Node& node);
Result<size_t> PairScoresShape(const Graph& graph, const Node& node);
Result<size_t> SoftmaxShape(const Graph& graph, const Node& node);
Result<size_t> WeightedSumShape(const Graph& graph, const Node& node);
Result<size_t> HiddenShape(const Graph& graph, const Node& node);
Result<size_t> LogitsShape(const Graph& graph, const Node& node);

}  // namespace moonlit
