// SPDX-License-Identifier: Apache-2.0
// Llama (Touvron et al. 2023, arXiv:2302.13971) and what shares its GGUF name: Llama 2 and 3, Mistral, SmolLM, TinyLlama.
// Pre-norm decoder: RMS norm, grouped-query attention with RoPE over neighbouring pairs (the converter permutes q and k rows
// so), SwiGLU. Llama 3.1 and later bring divisors of the RoPE frequencies as the tensor rope_freqs.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, "llama"));
  config.rope.pairs = RopePairs::kNeighbours;
  return config;
}

void BuildGraph(const ModelConfig& given, WeightBinder& bind, Graph& graph) {
  ModelConfig config = given;
  config.rope.divisors = bind.OptionalVector("rope_freqs.weight", config.rope.dims / 2);
  const DecoderWeights w = BindDecoder(bind, config, HeadNorms::kNone);
  ValueId x = graph.Embed(w.embedding);
  for (size_t layer = 0; layer < config.layers; ++layer) {
    graph.SetLayer(static_cast<int>(layer));
    x = AttentionBlock(graph, x, config, w.attention[layer]);
    x = FeedForwardBlock(graph, x, config, w.feed_forward[layer]);
  }
  graph.SetLayer(-1);
  graph.Logits(graph.RmsNorm(x, w.output_norm, config.rms_eps), w.head);
}

}  // namespace

extern const Architecture kLlama;
const Architecture kLlama = {"llama", &ReadConfig, &BuildGraph};

}  // namespace moonlit
