// SPDX-License-Identifier: Apache-2.0
// Seed-OSS (ByteDance 2025): Qwen2's decoder, with biases on q, k and v. Its converter calls the norm before the feed-forward network
// post_attention_norm.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, "seed_oss"));
  config.rope.pairs = RopePairs::kHalves;
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config, {.feed_forward = {.before = "post_attention_norm"}}).Build();
}

}  // namespace

extern const Architecture kSeedOss;
const Architecture kSeedOss = {"seed_oss", &ReadConfig, &BuildGraph};

}  // namespace moonlit
