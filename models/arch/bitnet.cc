// SPDX-License-Identifier: Apache-2.0
// BitNet b1.58 (Wang et al. 2023, arXiv:2310.11453; Ma et al. 2024, arXiv:2402.17764): a Llama with a norm inside each block, before its
// last product. The weights are ternary, which is the format's concern. "bitnet" has SiLU (1bitLLM's models), "bitnet-b1.58" the
// square of ReLU (Microsoft's 2B4T).
#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source, const char* name) {
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, name));
  config.rope.pairs = RopePairs::kHalves;
  return config;
}

Result<ModelConfig> ReadBitNet(const Metadata& metadata, const WeightSource& source) {
  return ReadConfig(metadata, source, "bitnet");
}

Result<ModelConfig> ReadBitNetB158(const Metadata& metadata, const WeightSource& source) {
  return ReadConfig(metadata, source, "bitnet-b1.58");
}

DecoderStyle Style(ActivationKind activation) {
  return {.attention = {.before = "attn_norm", .inside = "attn_sub_norm"},
          .feed_forward = {.before = "ffn_norm", .inside = "ffn_sub_norm"},
          .activation = activation};
}

void BuildBitNet(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config, Style(ActivationKind::kSilu)).Build();
}

void BuildBitNetB158(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder(bind, graph, config, Style(ActivationKind::kReluSquared)).Build();
}

}  // namespace

extern const Architecture kBitNet, kBitNetB158;
const Architecture kBitNet = {"bitnet", &ReadBitNet, &BuildBitNet};
const Architecture kBitNetB158 = {"bitnet-b1.58", &ReadBitNetB158, &BuildBitNetB158};

}  // namespace moonlit
