// SPDX-License-Identifier: Apache-2.0
// Arcee's AFM (2025): Llama whose feed-forward network is plain, with the square of ReLU (So et al. 2021, arXiv:2109.08668).
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, "arcee"));
  config.rope.pairs = RopePairs::kNeighbours;
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config, {.network = FeedForward::kPlain, .activation = ActivationKind::kReluSquared})
      .Build();
}

}  // namespace

extern const Architecture kArcee;
const Architecture kArcee = {"arcee", &ReadConfig, &BuildGraph};

}  // namespace moonlit
