// SPDX-License-Identifier: Apache-2.0
// Command R (Cohere 2024): layer norms without bias, blocks in parallel behind one norm, a factor of the logits; R+ norms every head of
// queries and keys. Command R7B and Aya (cohere2): three of four layers see a window, and only those rotate.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

constexpr size_t kGlobalPeriod = 4;

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source, const char* name) {
  const CommonFeatures features = {.norm = NormKind::kLayer, .keys = {"logit_scale", "attention.sliding_window"}};
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, name, features));
  config.logit_divisor = 1 / config.logit_divisor;
  return config;
}

Result<ModelConfig> ReadCommandR(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadConfig(metadata, source, "command-r"));
  config.rope.pairs = RopePairs::kNeighbours;
  return config;
}

Result<ModelConfig> ReadCohere2(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadConfig(metadata, source, "cohere2"));
  config.local_rope.pairs = RopePairs::kNeighbours;
  MOONLIT_ASSIGN_OR_RETURN(config.local, ReadLocalLayers(metadata, config, kGlobalPeriod));
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(
      bind, graph, config,
      {.norm = NormKind::kLayer, .feed_forward = {}, .parallel = true, .norms = QueryKeyNorms::kHeadsByWeight})
      .Build();
}

}  // namespace

extern const Architecture kCommandR, kCohere2;
const Architecture kCommandR = {"command-r", &ReadCommandR, &BuildGraph};
const Architecture kCohere2 = {"cohere2", &ReadCohere2, &BuildGraph};

}  // namespace moonlit
