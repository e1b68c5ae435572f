// SPDX-License-Identifier: Apache-2.0
// ERNIE 4.5 (Baidu 2025), the dense models: Llama under another name.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, "ernie4_5"));
  config.rope.pairs = RopePairs::kNeighbours;
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config, {}).Build();
}

}  // namespace

extern const Architecture kErnie45;
const Architecture kErnie45 = {"ernie4_5", &ReadConfig, &BuildGraph};

}  // namespace moonlit
