// SPDX-License-Identifier: Apache-2.0
// SmolLM3 (Hugging Face 2025): Llama with a head tied to the embedding, and every fourth layer without RoPE (Yang et al. 2025,
// "Rope to Nope and Back Again", arXiv:2501.18795). Which layers these are is not in the file.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

constexpr size_t kUnrotatedPeriod = 4;

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, "smollm3"));
  config.rope.pairs = RopePairs::kNone;
  config.local_rope.pairs = RopePairs::kNeighbours;
  MOONLIT_ASSIGN_OR_RETURN(config.local, ReadLocalLayers(metadata, config, kUnrotatedPeriod));
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config, {}).Build();
}

}  // namespace

extern const Architecture kSmolLm3;
const Architecture kSmolLm3 = {"smollm3", &ReadConfig, &BuildGraph};

}  // namespace moonlit
