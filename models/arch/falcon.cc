// SPDX-License-Identifier: Apache-2.0
// Falcon (Almazrouei et al. 2023, arXiv:2311.16867): layer norms, blocks in parallel, a plain network with GELU. The 7B has one norm for
// both blocks; the 40B has a second one, attn_norm_2, for attention. The RefinedWeb models (Penedo et al. 2023, arXiv:2306.01116) have
// their blocks one behind the other, each with a norm of its own, and ALiBi instead of RoPE; the bias is added to q . k before both are
// divided by the root of the head's size, so slopes are divided by it too.
#include <cmath>

#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(
      ModelConfig config,
      ReadCommonConfig(metadata, source, "falcon", {.norm = NormKind::kLayer, .keys = {"attention.max_alibi_bias"}}));
  config.rope.pairs = config.alibi_max_bias == 0 ? RopePairs::kHalves : RopePairs::kNone;
  config.alibi_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.key_dim)));
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderStyle style = {
      .norm = NormKind::kLayer, .fused_qkv = true, .network = FeedForward::kPlain, .activation = ActivationKind::kGelu};
  style.parallel = !bind.Has("blk.0.ffn_norm.weight");
  if (style.parallel) style.feed_forward = {};
  if (style.parallel && bind.Has("blk.0.attn_norm_2.weight")) {
    style.attention.before = "attn_norm_2";
    style.feed_forward.before = "attn_norm";
  }
  DecoderBuilder(bind, graph, config, style).Build();
}

}  // namespace

extern const Architecture kFalcon;
const Architecture kFalcon = {"falcon", &ReadConfig, &BuildGraph};

}  // namespace moonlit
