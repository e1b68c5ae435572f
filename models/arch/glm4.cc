// SPDX-License-Identifier: Apache-2.0
// GLM-4 (Z.ai 2025, the 0414 models): norms of a block's input and of what it adds, gate and up in one tensor, biases on q, k and v, RoPE
// over neighbouring pairs of half a head.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, "glm4"));
  config.rope.pairs = RopePairs::kNeighbours;
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config,
                 {.attention = {.before = "attn_norm", .after = "post_attention_norm"},
                  .feed_forward = {.before = "ffn_norm", .after = "post_ffw_norm"},
                  .network = FeedForward::kFusedGated})
      .Build();
}

}  // namespace

extern const Architecture kGlm4;
const Architecture kGlm4 = {"glm4", &ReadConfig, &BuildGraph};

}  // namespace moonlit
