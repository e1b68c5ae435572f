// SPDX-License-Identifier: Apache-2.0
// Gemma 4 (Google 2026), the E2B and E4B: Gemma 3 with norms of values, too, and scores without a scale; local layers have smaller
// heads; the last layers read the keys and values of the last local and the last global layer before them, and have wider
// networks. Each layer ends with a gated input of its own, made from the token and its embedding, and a factor. The mixture (26B)
// and the dense 31B are not here: their keys are refused.
#include <cmath>

#include "models/arch/architecture.h"

namespace moonlit {
namespace {

Result<ModelConfig> ReadConfig(const Metadata& metadata, const WeightSource& source) {
  CommonFeatures features = {.keys = {"final_logit_softcapping", "attention.sliding_window"}};
  features.feed_forward_per_layer = true;
  MOONLIT_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(metadata, source, "gemma4", features));
  ConfigReader reader(metadata, "gemma4");
  config.rope.pairs = RopePairs::kHalves;
  config.embedding_scale = std::sqrt(static_cast<float>(config.width));
  config.attention_scale = 1;
  MOONLIT_ASSIGN_OR_RETURN(config.local, ReadLocalLayers(metadata, config, 6));
  config.local_key_dim = reader.Count("attention.key_length_swa", 1, kLargestHead, config.key_dim);
  config.local_value_dim = reader.Count("attention.value_length_swa", 1, kLargestHead, config.value_dim);
  config.local_rope = UnscaledRope(config.rope);
  config.local_rope.dims = reader.Count("rope.dimension_count_swa", 2, config.local_key_dim, config.local_key_dim);
  config.local_rope.base = reader.Number("rope.freq_base_swa", 1.001, 1e15, 10000.0);
  config.shared_kv_layers = reader.Count("attention.shared_kv_layers", 0, config.layers - 1, 0);
  config.layer_input_width = reader.Count("embedding_length_per_layer_input", 0, config.width, 0);
  MOONLIT_RETURN_IF_ERROR(reader.status());
  return config;
}

DecoderStyle Style() {
  return {.attention = {.before = "attn_norm", .after = "post_attention_norm"},
          .feed_forward = {.before = "ffn_norm", .after = "post_ffw_norm"},
          .norms = QueryKeyNorms::kHeads,
          .value_norms = true,
          .activation = ActivationKind::kGeluTanh};
}

// What every layer gets beside the residual stream, [tokens, layers * layer_input_width].
ValueId LayerInputs(const ModelConfig& c, WeightBinder& bind, Graph& graph, ValueId x) {
  const size_t each = c.layer_input_width, all = c.layers * each;
  const auto root = [](size_t n) { return std::sqrt(static_cast<float>(n)); };
  const ValueId token = graph.Scale(graph.Embed(bind.Matrix("per_layer_token_embd.weight", c.vocab, all)), root(each));
  const ValueId context =
      graph.Scale(graph.Linear(x, bind.Matrix("per_layer_model_proj.weight", all, c.width)), 1 / root(c.width));
  const WeightId norm = bind.Vector("per_layer_proj_norm.weight", each);
  const ValueId normed = graph.Norm(context, {.eps = c.norm_eps, .heads = c.layers, .weight = norm});
  return graph.Scale(graph.Add(normed, token), 1 / root(2));
}

// x + norm(proj(gelu(gate x) * input))
ValueId AddLayerInput(DecoderBuilder& build, Graph& graph, const ModelConfig& c, ValueId x, ValueId inputs,
                      size_t layer) {
  const size_t each = c.layer_input_width;
  const ValueId gate = build.Linear(x, LayerTensor(layer, "inp_gate"), each, c.width);
  const ValueId gated = graph.Gate(gate, graph.Columns(inputs, layer * each, each), ActivationKind::kGeluTanh);
  const ValueId y = build.Linear(gated, LayerTensor(layer, "proj"), c.width, each);
  return build.Join(x, y, {.after = "post_norm"}, layer);
}

void BuildGraph(const ModelConfig& given, WeightBinder& bind, Graph& graph) {
  ModelConfig config = given;
  config.rope.divisors = bind.OptionalVector("rope_freqs.weight", config.rope.dims / 2);
  DecoderBuilder build(bind, graph, config, Style());
  ValueId x = build.Embedding();
  ValueId inputs = kNoValue;
  if (config.layer_input_width != 0) inputs = LayerInputs(config, bind, graph, x);
  for (size_t layer = 0; layer < config.layers; ++layer) {
    x = build.Layer(x, layer);
    if (inputs != kNoValue) x = AddLayerInput(build, graph, config, x, inputs, layer);
    const WeightId scale = bind.OptionalVector(LayerTensor(layer, "layer_output_scale.weight"), 1);
    if (scale != kNoWeight) x = graph.Scale(x, scale, 1);
    graph.EndLayer(x);
  }
  build.Head(x);
}

}  // namespace

extern const Architecture kGemma4;
const Architecture kGemma4 = {"gemma4", &ReadConfig, &BuildGraph};

}  // namespace moonlit
