// SPDX-License-Identifier: Apache-2.0
// Phi-2 (Microsoft 2023): layer norms, blocks in parallel behind one norm, a plain network, biases everywhere, and RoPE over a part of a
// head. Phi-3 and 4 (Abdin et al. 2024, arXiv:2404.14219): a Llama with q, k, v in one tensor and gate, up in another.
// Phi-3 for long texts divides the frequencies of RoPE, by other numbers within the length it was first trained for than beyond
// (LongRoPE, Ding et al. 2024, arXiv:2402.13753); a plan has one set of keys for both, so a model that is made for more
// takes those for more from the first token on.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadPhi2(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, "phi2", {.norm = NormKind::kLayer}));
  config.rope.pairs = RopePairs::kHalves;
  return config;
}

Result<ModelConfig> ReadPhi3(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config,
                           ReadCommonConfig(metadata, source, "phi3", {.keys = {"attention.sliding_window"}}));
  config.rope.pairs = RopePairs::kHalves;
  if (config.window != 0) config.local.assign(config.layers, true);
  return config;
}

void BuildPhi2(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config,
                 {.norm = NormKind::kLayer,
                  .feed_forward = {},
                  .parallel = true,
                  .network = FeedForward::kPlain,
                  .activation = ActivationKind::kGeluTanh})
      .Build();
}

void BuildPhi3(const ModelConfig& given, WeightBinder& bind, Graph& graph) {
  ModelConfig config = given;
  BindLongRope(bind, config);
  config.local_rope = config.rope;
  DecoderBuilder(bind, graph, config, {.fused_qkv = true, .network = FeedForward::kFusedGated}).Build();
}

}  // namespace

extern const Architecture kPhi2, kPhi3;
const Architecture kPhi2 = {"phi2", &ReadPhi2, &BuildPhi2};
const Architecture kPhi3 = {"phi3", &ReadPhi3, &BuildPhi3};

}  // namespace moonlit
