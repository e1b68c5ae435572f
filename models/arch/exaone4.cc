// SPDX-License-Identifier: Apache-2.0
// EXAONE 4.0 (LG AI Research 2025, arXiv:2507.11407): norms of what a block adds alone, and of every query and key head. In the 32B three of
// four layers see a window, and only those rotate.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

constexpr size_t kGlobalPeriod = 4;

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config,
                           ReadCommonConfig(metadata, source, "exaone4", {.keys = {"attention.sliding_window"}}));
  config.rope.pairs = RopePairs::kHalves;
  config.local_rope = config.rope;
  if (config.window != 0) {
    config.rope.pairs = RopePairs::kNone;
    MOONLIT_ASSIGN_OR_RETURN(config.local, ReadLocalLayers(metadata, config, kGlobalPeriod));
  }
  return config;
}

void BuildGraph(const ModelConfig& given, WeightBinder& bind, Graph& graph) {
  ModelConfig config = given;
  config.local_rope.divisors = bind.OptionalVector("rope_freqs.weight", config.rope.dims / 2);
  if (config.rope.pairs != RopePairs::kNone) config.rope.divisors = config.local_rope.divisors;
  DecoderBuilder(bind, graph, config,
                 {.attention = {.after = "post_attention_norm"},
                  .feed_forward = {.after = "post_ffw_norm"},
                  .norms = QueryKeyNorms::kHeads})
      .Build();
}

}  // namespace

extern const Architecture kExaone4;
const Architecture kExaone4 = {"exaone4", &ReadConfig, &BuildGraph};

}  // namespace moonlit
