// SPDX-License-Identifier: Apache-2.0
// StarCoder 2 (Lozhkov et al. 2024, arXiv:2402.19173): layer norms, grouped queries, RoPE, a plain network with GELU (its tanh form);
// every layer may see a window. The first StarCoder is a GPT-2 (gpt2.cc).
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config,
                           ReadCommonConfig(metadata, source, "starcoder2",
                                            {.norm = NormKind::kLayer, .keys = {"attention.sliding_window"}}));
  config.rope.pairs = config.local_rope.pairs = RopePairs::kHalves;
  if (config.window != 0) config.local.assign(config.layers, true);
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config,
                 {.norm = NormKind::kLayer, .network = FeedForward::kPlain, .activation = ActivationKind::kGeluTanh})
      .Build();
}

}  // namespace

extern const Architecture kStarCoder2;
const Architecture kStarCoder2 = {"starcoder2", &ReadConfig, &BuildGraph};

}  // namespace moonlit
