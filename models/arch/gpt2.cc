// SPDX-License-Identifier: Apache-2.0
// GPT-2 (Radford et al. 2019): layer norms, learned positions, a plain network with GELU (its tanh form), biases everywhere. StarCoder
// (Li et al. 2023, arXiv:2305.06161) is the same with one KV head.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source, const char* name) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, name, {.norm = NormKind::kLayer}));
  config.rope.pairs = RopePairs::kNone;
  return config;
}

Result<ModelConfig> ReadGpt2(const Metadata& metadata, const WeightSource& source) {
  return ReadConfig(metadata, source, "gpt2");
}
Result<ModelConfig> ReadStarCoder(const Metadata& metadata, const WeightSource& source) {
  return ReadConfig(metadata, source, "starcoder");
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

extern const Architecture kGpt2, kStarCoder;
const Architecture kGpt2 = {"gpt2", &ReadGpt2, &BuildGraph};
const Architecture kStarCoder = {"starcoder", &ReadStarCoder, &BuildGraph};

}  // namespace moonlit
