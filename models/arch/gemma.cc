// SPDX-License-Identifier: Apache-2.0
// Gemma (Mesnard et al. 2024, arXiv:2403.08295): a Llama with GELU (tanh form) at the gate and embeddings times the root of their
// width; norm weights are stored with the 1 added. Gemma 2 (2024, arXiv:2408.00118): norms of what a block adds, too, softcaps of
// scores and logits, and every other layer sees a window. Gemma 3 (2025, arXiv:2503.19786): norms of every query and key head
// instead of softcaps; five of six layers see a window, and rotate by a base of their own that is never stretched.
#include <cmath>

#include "models/arch/architecture.h"
#include "models/common/gemma_scale.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source, const char* name,
                               const CommonFeatures& features) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, name, features));
  config.rope.pairs = RopePairs::kHalves;
  config.embedding_scale = std::sqrt(static_cast<float>(config.width));
  config.local_rope = config.rope;
  return config;
}

Result<ModelConfig> ReadGemma(const Metadata& metadata, const WeightSource& source) {
  return ReadConfig(metadata, source, "gemma", {});
}

void ScaleByWidth(ModelConfig& config, size_t layers_of_largest) {
  if (config.layers != layers_of_largest) return;
  config.attention_scale =
      static_cast<float>(std::sqrt(static_cast<double>(config.heads) / static_cast<double>(config.width)));
}

Result<ModelConfig> ReadGemma2(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(
      ModelConfig config,
      ReadConfig(metadata, source, "gemma2",
                 {.keys = {"attn_logit_softcapping", "final_logit_softcapping", "attention.sliding_window"}}));
  if (config.window == 0) config.window = 4096;
  MOONLIT_ASSIGN_OR_RETURN(config.local, ReadLocalLayers(metadata, config, 2));
  ScaleByWidth(config, kLayersOfLargestGemma2);
  return config;
}

Result<ModelConfig> ReadGemma3(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(
      ModelConfig config,
      ReadConfig(metadata, source, "gemma3", {.keys = {"final_logit_softcapping", "attention.sliding_window"}}));
  MOONLIT_ASSIGN_OR_RETURN(config.local, ReadLocalLayers(metadata, config, 6));
  ConfigReader reader(metadata, "gemma3");
  config.local_rope = UnscaledRope(config.rope);
  config.local_rope.base = reader.Number("rope.freq_base_swa", 1.001, 1e15, 10000.0);
  MOONLIT_RETURN_IF_ERROR(reader.status());
  ScaleByWidth(config, kLayersOfLargestGemma3);
  return config;
}

void BuildGemma(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config, {.activation = ActivationKind::kGeluTanh}).Build();
}

DecoderStyle NormedTwice(QueryKeyNorms norms) {
  return {.attention = {.before = "attn_norm", .after = "post_attention_norm"},
          .feed_forward = {.before = "ffn_norm", .after = "post_ffw_norm"},
          .norms = norms,
          .activation = ActivationKind::kGeluTanh};
}

void BuildGemma2(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config, NormedTwice(QueryKeyNorms::kNone)).Build();
}

void BuildGemma3(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config, NormedTwice(QueryKeyNorms::kHeads)).Build();
}

}  // namespace

extern const Architecture kGemma, kGemma2, kGemma3;
const Architecture kGemma = {"gemma", &ReadGemma, &BuildGemma};
const Architecture kGemma2 = {"gemma2", &ReadGemma2, &BuildGemma2};
const Architecture kGemma3 = {"gemma3", &ReadGemma3, &BuildGemma3};

}  // namespace moonlit
