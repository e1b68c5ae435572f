// SPDX-License-Identifier: Apache-2.0
// OLMoE (Muennighoff et al. 2024, arXiv:2409.02060): a mixture in every layer whose weights are the chosen experts' part of the
// softmax, RoPE over halves of a head, and RMS norms of queries and keys over all heads together.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config,
                           ReadCommonConfig(metadata, source, "olmoe", {.experts = ExpertsKey::kRequired}));
  config.rope.pairs = RopePairs::kHalves;
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config, {.norms = QueryKeyNorms::kRows}).Build();
}

}  // namespace

extern const Architecture kOlmoe;
const Architecture kOlmoe = {"olmoe", &ReadConfig, &BuildGraph};

}  // namespace moonlit
