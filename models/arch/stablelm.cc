// SPDX-License-Identifier: Apache-2.0
// StableLM 2 (Bellagente et al. 2024, arXiv:2402.17834): layer norms, RoPE over the first quarter of a head. The 12B norms every head of
// queries and keys with a weight for each head, and runs the blocks in parallel: its files have no ffn_norm, whatever their
// key use_parallel_residual says.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(
      ModelConfig config,
      ReadCommonConfig(metadata, source, "stablelm", {.norm = NormKind::kLayer, .keys = {"use_parallel_residual"}}));
  config.rope.pairs = RopePairs::kHalves;
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderStyle style = {.norm = NormKind::kLayer, .norms = QueryKeyNorms::kHeadsByWeight};
  style.parallel = !bind.Has("blk.0.ffn_norm.weight");
  if (style.parallel) style.feed_forward = {};
  DecoderBuilder(bind, graph, config, style).Build();
}

}  // namespace

extern const Architecture kStableLm;
const Architecture kStableLm = {"stablelm", &ReadConfig, &BuildGraph};

}  // namespace moonlit
