// SPDX-License-Identifier: Apache-2.0
// MPT (MosaicML 2023): layer norms without bias, ALiBi or learned positions, a plain network with GELU; queries, keys and values may be
// clamped.
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  const CommonFeatures features = {.norm = NormKind::kLayer,
                                   .keys = {"attention.clamp_kqv", "attention.max_alibi_bias"}};
  return ReadCommonConfig(metadata, source, "mpt", features);
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config,
                 {.norm = NormKind::kLayer,
                  .positions = bind.Has("position_embd.weight"),
                  .fused_qkv = true,
                  .network = FeedForward::kPlain,
                  .activation = ActivationKind::kGelu})
      .Build();
}

}  // namespace

extern const Architecture kMpt;
const Architecture kMpt = {"mpt", &ReadConfig, &BuildGraph};

}  // namespace moonlit
