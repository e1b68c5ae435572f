// SPDX-License-Identifier: Apache-2.0
// GPT-2 (Radford et al. 2019): layer norms, learned positions, a plain network with GELU (its tanh form), biases everywhere.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, "gpt2", {.norm = NormKind::kLayer}));
  config.rope.pairs = RopePairs::kNone;
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config,
                 {.norm = NormKind::kLayer,
                  .positions = true,
                  .fused_qkv = true,
                  .network = FeedForward::kPlain,
                  .activation = ActivationKind::kGeluTanh})
      .Build();
}

}  // namespace

extern const Architecture kGpt2;
const Architecture kGpt2 = {"gpt2", &ReadConfig, &BuildGraph};

}  // namespace moonlit
