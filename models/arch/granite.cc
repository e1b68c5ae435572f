// SPDX-License-Identifier: Apache-2.0
// Granite 3 (IBM 2024, "Granite 3.0 Language Models"): Llama with four scales: of the embedding, of what each block adds, of q . k,
// and a divisor of the logits. Its mixture chooses experts by logit and takes the softmax of the chosen.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, "granitemoe",
                                                                {.experts = ExpertsKey::kRequired, .scales = true}));
  config.rope.pairs = RopePairs::kNeighbours;
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  BuildDecoder(bind, graph, config, {.scores = RouterScores::kSoftmaxOfChosen});
}

}  // namespace

extern const Architecture kGraniteMoe;
const Architecture kGraniteMoe = {"granitemoe", &ReadConfig, &BuildGraph};

}  // namespace moonlit
