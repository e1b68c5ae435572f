// SPDX-License-Identifier: Apache-2.0
// Qwen2 and 2.5 (Yang et al. 2024, arXiv:2407.10671): Llama with biases on q, k and v and RoPE over halves of a head. Its mixture
// (Qwen1.5-MoE, Qwen2-57B-A14B) takes the chosen experts' part of the softmax as it is, and has a shared expert with a gate.
// Qwen3 (Yang et al. 2025, arXiv:2505.09388): no biases, but an RMS norm on every query and key head before RoPE; its mixture
// divides the weights by their sum.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source, const std::string& name) {
  const ExpertsKey experts = name.ends_with("moe") ? ExpertsKey::kRequired : ExpertsKey::kRefused;
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, name, {.experts = experts}));
  config.rope.pairs = RopePairs::kHalves;
  // Early files give the width of all experts that a token uses.
  if (config.experts != 0 && !metadata.Has(name + ".expert_feed_forward_length"))
    config.expert_width = config.ffn_width / config.experts_used;
  return config;
}

Result<ModelConfig> ReadQwen2(const Metadata& metadata, const WeightSource& source) {
  return ReadConfig(metadata, source, "qwen2");
}
Result<ModelConfig> ReadQwen3(const Metadata& metadata, const WeightSource& source) {
  return ReadConfig(metadata, source, "qwen3");
}
Result<ModelConfig> ReadQwen2Moe(const Metadata& metadata, const WeightSource& source) {
  return ReadConfig(metadata, source, "qwen2moe");
}
Result<ModelConfig> ReadQwen3Moe(const Metadata& metadata, const WeightSource& source) {
  return ReadConfig(metadata, source, "qwen3moe");
}
void BuildQwen2(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config, {.shared_expert = SharedExpert::kSigmoidGated}).Build();
}
void BuildQwen3(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config, {.norms = QueryKeyNorms::kHeads, .normalise_weights = true}).Build();
}

}  // namespace

extern const Architecture kQwen2, kQwen3, kQwen2Moe, kQwen3Moe;
const Architecture kQwen2 = {"qwen2", &ReadQwen2, &BuildQwen2};
const Architecture kQwen3 = {"qwen3", &ReadQwen3, &BuildQwen3};
const Architecture kQwen2Moe = {"qwen2moe", &ReadQwen2Moe, &BuildQwen2};
const Architecture kQwen3Moe = {"qwen3moe", &ReadQwen3Moe, &BuildQwen3};

}  // namespace moonlit
