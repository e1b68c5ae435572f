// SPDX-License-Identifier: Apache-2.0
// Llama (Touvron et al. 2023, arXiv:2302.13971) and what shares its GGUF name: Llama 2 and 3, Mistral, SmolLM, TinyLlama, and
// Mixtral (Jiang et al. 2024, arXiv:2401.04088). Pre-norm decoder: RMS norm, grouped-query attention with RoPE over neighbouring
// pairs (the converter permutes q and k rows so), SwiGLU. Llama 3.1 and later bring divisors of the RoPE frequencies as the
// tensor rope_freqs. Mixtral has experts, whose weights are a softmax over the chosen: what is left of the softmax over all when
// it is divided by its sum. Some have LongRoPE (Ding et al. 2024, arXiv:2402.13753): divisors for short texts and for long ones.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config,
                           ReadCommonConfig(metadata, source, "llama",
                                            {.experts = ExpertsKey::kOptional, .keys = {"attention.sliding_window"}}));
  config.rope.pairs = RopePairs::kNeighbours;
  // Mistral 7B's first version: every layer sees the window.
  if (config.window != 0) config.local.assign(config.layers, true);
  return config;
}

void BuildGraph(const ModelConfig& given, WeightBinder& bind, Graph& graph) {
  ModelConfig config = given;
  BindLongRope(bind, config);
  if (config.rope.divisors == kNoWeight)
    config.rope.divisors = bind.OptionalVector("rope_freqs.weight", config.rope.dims / 2);
  config.local_rope = config.rope;
  DecoderBuilder(bind, graph, config, {.scores = RouterScores::kSoftmaxOfChosen}).Build();
}

}  // namespace

extern const Architecture kLlama;
const Architecture kLlama = {"llama", &ReadConfig, &BuildGraph};

}  // namespace moonlit
