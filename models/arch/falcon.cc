// SPDX-License-Identifier: Apache-2.0
// Falcon (Almazrouei et al. 2023, arXiv:2311.16867): layer norms, blocks in parallel, a plain network with GELU. The 7B has one norm for
// both blocks; the 40B has a second one, attn_norm_2, for attention.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config,
                           ReadCommonConfig(metadata, source, "falcon", {.norm = NormKind::kLayer}));
  config.rope.pairs = RopePairs::kHalves;
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderStyle style = {.norm = NormKind::kLayer,
                        .feed_forward = {},
                        .parallel = true,
                        .fused_qkv = true,
                        .network = FeedForward::kPlain,
                        .activation = ActivationKind::kGelu};
  if (bind.Has("blk.0.attn_norm_2.weight")) {
    style.attention.before = "attn_norm_2";
    style.feed_forward.before = "attn_norm";
  }
  DecoderBuilder(bind, graph, config, style).Build();
}

}  // namespace

extern const Architecture kFalcon;
const Architecture kFalcon = {"falcon", &ReadConfig, &BuildGraph};

}  // namespace moonlit
