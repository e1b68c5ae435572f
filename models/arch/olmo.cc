// SPDX-License-Identifier: Apache-2.0
// OLMo (Groeneveld et al. 2024, arXiv:2402.00838): a Llama whose layer norms have no weights, and whose queries, keys and values may be
// clamped. OLMo 2 (OLMo team 2024, arXiv:2501.00656): RMS norms of what a block adds instead of its input, and of queries and
// keys over all heads together. OLMo 3 (2025) has the same name in GGUF; three of four layers see a window, and the others alone
// stretch RoPE.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadOlmo(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(
      ModelConfig config,
      ReadCommonConfig(metadata, source, "olmo", {.norm = NormKind::kLayer, .keys = {"attention.clamp_kqv"}}));
  config.rope.pairs = RopePairs::kNeighbours;
  return config;
}

Result<ModelConfig> ReadOlmo2(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config,
                           ReadCommonConfig(metadata, source, "olmo2", {.keys = {"attention.sliding_window"}}));
  config.rope.pairs = RopePairs::kHalves;
  config.local_rope = UnscaledRope(config.rope);
  if (config.window != 0) {
    MOONLIT_ASSIGN_OR_RETURN(config.local, ReadLocalLayers(metadata, config, 4));
  }
  return config;
}

void BuildOlmo(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config, {.norm = NormKind::kLayer, .norm_weights = false}).Build();
}

void BuildOlmo2(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config,
                 {.attention = {.after = "post_attention_norm"},
                  .feed_forward = {.after = "post_ffw_norm"},
                  .norms = QueryKeyNorms::kRows})
      .Build();
}

}  // namespace

extern const Architecture kOlmo, kOlmo2;
const Architecture kOlmo = {"olmo", &ReadOlmo, &BuildOlmo};
const Architecture kOlmo2 = {"olmo2", &ReadOlmo2, &BuildOlmo2};

}  // namespace moonlit
