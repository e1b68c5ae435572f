// SPDX-License-Identifier: Apache-2.0
// Qwen2 and 2.5 (Yang et al. 2024, arXiv:2407.10671): Llama with biases on q, k and v and RoPE over halves of a head.
// Qwen3 (Yang et al. 2025, arXiv:2505.09388): no biases, but an RMS norm on every query and key head before RoPE.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source, const char* name) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, name));
  config.rope.pairs = RopePairs::kHalves;
  return config;
}

void BuildDecoder(const ModelConfig& config, WeightBinder& bind, Graph& graph, HeadNorms head_norms) {
  const DecoderWeights w = BindDecoder(bind, config, head_norms);
  ValueId x = graph.Embed(w.embedding);
  for (size_t layer = 0; layer < config.layers; ++layer) {
    graph.SetLayer(static_cast<int>(layer));
    x = AttentionBlock(graph, x, config, w.attention[layer]);
    x = FeedForwardBlock(graph, x, config, w.feed_forward[layer]);
  }
  graph.SetLayer(-1);
  graph.Logits(graph.RmsNorm(x, w.output_norm, config.rms_eps), w.head);
}

Result<ModelConfig> ReadQwen2(const Metadata& metadata, const WeightSource& source) {
  return ReadConfig(metadata, source, "qwen2");
}
Result<ModelConfig> ReadQwen3(const Metadata& metadata, const WeightSource& source) {
  return ReadConfig(metadata, source, "qwen3");
}
void BuildQwen2(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  BuildDecoder(config, bind, graph, HeadNorms::kNone);
}
void BuildQwen3(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  BuildDecoder(config, bind, graph, HeadNorms::kRequired);
}

}  // namespace

extern const Architecture kQwen2;
extern const Architecture kQwen3;
const Architecture kQwen2 = {"qwen2", &ReadQwen2, &BuildQwen2};
const Architecture kQwen3 = {"qwen3", &ReadQwen3, &BuildQwen3};

}  // namespace moonlit
