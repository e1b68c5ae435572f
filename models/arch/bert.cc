// SPDX-License-Identifier: Apache-2.0
// BERT (Devlin et al. 2018, arXiv:1810.04805) as a maker of embeddings: every token sees all others, positions are learned, layer norms
// come behind the sums, the network is plain with GELU. The output are the hidden states behind the last layer.
#include "models/arch/architecture.h"
#include "models/common/config_reader.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(
      ModelConfig config,
      ReadCommonConfig(metadata, source, "bert", {.norm = NormKind::kLayer, .keys = {"attention.causal"}}));
  config.rope.pairs = RopePairs::kNone;
  ConfigReader reader(metadata, "bert");
  config.bidirectional = !reader.Flag("attention.causal", false);
  MOONLIT_RETURN_IF_ERROR(reader.status());
  constexpr char kTypes[] = "tokenizer.ggml.token_type_count";
  if (!metadata.Has(kTypes)) {
    const TensorInfo* types = source.Find("token_types.weight");
    config.token_types = types == nullptr ? 0 : types->shape.rows();
    return config;
  }
  MOONLIT_ASSIGN_OR_RETURN(const uint64_t types, metadata.GetUint(kTypes));
  constexpr uint64_t kMostTypes = 1024;
  if (types > kMostTypes) {
    return Errorf(Code::kCorrupt, "%s is %llu: expected 0 to %llu", kTypes, static_cast<unsigned long long>(types),
                  static_cast<unsigned long long>(kMostTypes));
  }
  config.token_types = static_cast<size_t>(types);
  return config;
}

void BuildGraph(const ModelConfig& config, WeightBinder& bind, Graph& graph) {
  DecoderBuilder builder(bind, graph, config,
                         {.norm = NormKind::kLayer,
                          .attention = {.of_sum = "attn_output_norm"},
                          .feed_forward = {.of_sum = "layer_output_norm"},
                          .embedding_norm = "token_embd_norm",
                          .token_types = config.token_types > 0,
                          .positions = true,
                          .network = FeedForward::kPlain,
                          .activation = ActivationKind::kGelu});
  ValueId x = builder.Embedding();
  for (size_t layer = 0; layer < config.layers; ++layer) {
    x = builder.Layer(x, layer);
    graph.EndLayer(x);
  }
  graph.SetLayer(-1);
  graph.Hidden(x, config.pooling);
}

}  // namespace

extern const Architecture kBert;
const Architecture kBert = {"bert", &ReadConfig, &BuildGraph};

}  // namespace moonlit
