// SPDX-License-Identifier: Apache-2.0
// Granite 3 (IBM 2024, "Granite 3.0 Language Models"): Llama with four scales: of the embedding, of what each block adds, of q . k,
// and a divisor of the logits. Its mixture chooses experts by logit and takes the softmax of the chosen.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source, const char* name,
                               ExpertsKey experts) {
  const CommonFeatures features = {.experts = experts,
                                   .keys = {"embedding_scale", "residual_scale", "logit_scale", "attention.scale"}};
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, name, features));
  config.rope.pairs = RopePairs::kNeighbours;
  return config;
}

Result<ModelConfig> ReadGranite(const Metadata& metadata, const WeightSource& source) {
  return ReadConfig(metadata, source, "granite", ExpertsKey::kRefused);
}

Result<ModelConfig> ReadGraniteMoe(const Metadata& metadata, const WeightSource& source) {
  return ReadConfig(metadata, source, "granitemoe", ExpertsKey::kRequired);
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config, {.scores = RouterScores::kSoftmaxOfChosen}).Build();
}

}  // namespace

extern const Architecture kGranite, kGraniteMoe;
const Architecture kGranite = {"granite", &ReadGranite, &BuildGraph};
const Architecture kGraniteMoe = {"granitemoe", &ReadGraniteMoe, &BuildGraph};

}  // namespace moonlit
