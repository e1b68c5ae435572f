// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX (Black et al. 2022, arXiv:2204.06745) and Pythia: layer norms, blocks in parallel, each behind a norm of its own, a plain
// network with GELU, RoPE over a part of a head. Its converter puts q, k and v of all heads together in attn_qkv.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(
      ModelConfig config,
      ReadCommonConfig(metadata, source, "gptneox", {.norm = NormKind::kLayer, .keys = {"use_parallel_residual"}}));
  config.rope.pairs = RopePairs::kHalves;
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config,
                 {.norm = NormKind::kLayer,
                  .parallel = config.parallel_residual,
                  .fused_qkv = true,
                  .network = FeedForward::kPlain,
                  .activation = ActivationKind::kGelu})
      .Build();
}

}  // namespace

extern const Architecture kGptNeoX;
const Architecture kGptNeoX = {"gptneox", &ReadConfig, &BuildGraph};

}  // namespace moonlit
