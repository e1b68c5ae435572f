// SPDX-License-Identifier: Apache-2.0
// BLOOM (BigScience 2022, arXiv:2211.05100): layer norms, one of them behind the embedding, ALiBi instead of positions, a plain network
// with GELU in its tanh form, biases everywhere. Its converter puts q, k and v of all heads together in attn_qkv.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

constexpr float kAlibiMaxBias = 8;  // not in the file

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, "bloom", {.norm = NormKind::kLayer}));
  config.alibi_max_bias = kAlibiMaxBias;
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config,
                 {.norm = NormKind::kLayer,
                  .embedding_norm = "token_embd_norm",
                  .fused_qkv = true,
                  .network = FeedForward::kPlain,
                  .activation = ActivationKind::kGeluTanh})
      .Build();
}

}  // namespace

extern const Architecture kBloom;
const Architecture kBloom = {"bloom", &ReadConfig, &BuildGraph};

}  // namespace moonlit
