// SPDX-License-Identifier: Apache-2.0
// Nemotron 3 and 4, Minitron (Parmar et al. 2024, arXiv:2402.16819): layer norms (whose weights are stored with the 1 added), RoPE over
// half of a head, a plain network with the square of ReLU.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config,
                           ReadCommonConfig(metadata, source, "nemotron", {.norm = NormKind::kLayer}));
  config.rope.pairs = RopePairs::kHalves;
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config,
                 {.norm = NormKind::kLayer, .network = FeedForward::kPlain, .activation = ActivationKind::kReluSquared})
      .Build();
}

}  // namespace

extern const Architecture kNemotron;
const Architecture kNemotron = {"nemotron", &ReadConfig, &BuildGraph};

}  // namespace moonlit
