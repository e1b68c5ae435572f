// SPDX-License-Identifier: Apache-2.0
// StarCoder (Li et al. 2023, arXiv:2305.06161): GPT-2 with one KV head for all queries. StarCoder 2 (Lozhkov et al. 2024,
// arXiv:2402.19173): grouped queries and RoPE instead of learned positions; GELU in its tanh form in both.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadStarCoder(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config,
                           ReadCommonConfig(metadata, source, "starcoder", {.norm = NormKind::kLayer}));
  config.rope.pairs = RopePairs::kNone;
  return config;
}

Result<ModelConfig> ReadStarCoder2(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config,
                           ReadCommonConfig(metadata, source, "starcoder2", {.norm = NormKind::kLayer}));
  config.rope.pairs = RopePairs::kHalves;
  return config;
}

void BuildStarCoder(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config,
                 {.norm = NormKind::kLayer,
                  .positions = true,
                  .fused_qkv = true,
                  .network = FeedForward::kPlain,
                  .activation = ActivationKind::kGeluTanh})
      .Build();
}

void BuildStarCoder2(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config,
                 {.norm = NormKind::kLayer, .network = FeedForward::kPlain, .activation = ActivationKind::kGeluTanh})
      .Build();
}

}  // namespace

extern const Architecture kStarCoder, kStarCoder2;
const Architecture kStarCoder = {"starcoder", &ReadStarCoder, &BuildStarCoder};
const Architecture kStarCoder2 = {"starcoder2", &ReadStarCoder2, &BuildStarCoder2};

}  // namespace moonlit
