// SPDX-License-Identifier: Apache-2.0
// InternLM 2 and 2.5 (Cai et al. 2024, arXiv:2403.17297): Llama under another name. The paper keeps q, k and v of a group together in one
// tensor; its converter takes them apart and permutes q and k as Llama's.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, "internlm2"));
  config.rope.pairs = RopePairs::kNeighbours;
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config, {}).Build();
}

}  // namespace

extern const Architecture kInternLm2;
const Architecture kInternLm2 = {"internlm2", &ReadConfig, &BuildGraph};

}  // namespace moonlit
