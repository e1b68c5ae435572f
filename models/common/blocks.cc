// SPDX-License-Identifier: Apache-2.0
#include "models/common/blocks.h"

#include <cmath>

#include "runtime/graph/composites.h"

namespace moonlit {

NormSpec DecoderBuilder::BindNorm(const std::string& name, size_t width) {
  NormSpec spec{.kind = style_.norm, .eps = config_.norm_eps};
  if (!style_.norm_weights) return spec;
  spec.weight = bind_.Vector(name + ".weight", width);
  if (spec.kind == NormKind::kLayer) spec.bias = bind_.OptionalVector(name + ".bias", width);
  return spec;
}

ValueId DecoderBuilder::Norm(ValueId x, const std::string& name, size_t width) {
  return graph_.Norm(x, BindNorm(name, width));
}

ValueId DecoderBuilder::Linear(ValueId x, const std::string& name, size_t outputs, size_t inputs) {
  const WeightId matrix = bind_.Matrix(name + ".weight", outputs, inputs);
  return graph_.Linear(x, matrix, bind_.OptionalVector(name + ".bias", outputs));
}

ValueId DecoderBuilder::LinearPart(ValueId x, const Product& p) {
  if (p.first == 0 && p.count == p.outputs) return Linear(x, p.name, p.outputs, config_.width);
  const WeightId matrix = bind_.MatrixRows(p.name + ".weight", p.outputs, config_.width, p.first, p.count);
  return graph_.Linear(x, matrix, bind_.OptionalVectorPart(p.name + ".bias", p.outputs, p.first, p.count));
}

ValueId DecoderBuilder::Join(ValueId x, ValueId y, const BlockNorms& norms, size_t layer) {
  if (norms.after != nullptr) y = Norm(y, LayerTensor(layer, norms.after), config_.width);
  if (config_.residual_scale != 1) y = graph_.Scale(y, config_.residual_scale);
  const ValueId sum = graph_.Add(x, y);
  return norms.of_sum == nullptr ? sum : Norm(sum, LayerTensor(layer, norms.of_sum), config_.width);
}

AttentionSpec DecoderBuilder::Spec(size_t layer) const {
  const bool local = IsLocal(layer);
  AttentionSpec spec;
  spec.heads = config_.heads;
  spec.kv_heads = config_.kv_heads;
  spec.key_dim = local && config_.local_key_dim != 0 ? config_.local_key_dim : config_.key_dim;
  spec.value_dim = local && config_.local_value_dim != 0 ? config_.local_value_dim : config_.value_dim;
  spec.scale = config_.attention_scale != 0 ? config_.attention_scale
                                            : static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.key_dim)));
  spec.alibi_max_bias = config_.alibi_max_bias;
  spec.alibi_scale = config_.alibi_scale;
  spec.softcap = config_.attention_softcap;
  spec.window = local ? config_.window : 0;
  spec.rope = local ? config_.local_rope : config_.rope;
  spec.norm_eps = config_.norm_eps;
  spec.bidirectional = config_.bidirectional;
  return spec;
}

// Norms of heads are attention's own part; those of all heads together come before it.
void DecoderBuilder::BindHeadNorms(size_t layer, AttentionSpec& spec) {
  const std::string q = LayerTensor(layer, "attn_q_norm.weight"), k = LayerTensor(layer, "attn_k_norm.weight");
  const bool writes = spec.kv_layer < 0;
  if (style_.norms == QueryKeyNorms::kHeads) {
    spec.q_norm = bind_.Vector(q, spec.key_dim);
    if (writes) spec.k_norm = bind_.Vector(k, spec.key_dim);
  } else if (style_.norms == QueryKeyNorms::kHeadsByWeight && bind_.Has(q)) {
    spec.norm_kind = style_.norm;
    spec.q_norm = bind_.Table(q, spec.heads, spec.key_dim);
    spec.k_norm = bind_.Table(k, spec.kv_heads, spec.key_dim);
  }
  spec.value_norm = style_.value_norms;
}

int DecoderBuilder::KvLayer(size_t layer) const {
  const size_t own = config_.layers - config_.shared_kv_layers;
  if (layer < own) return -1;
  size_t source = own - 1;
  while (source > 0 && IsLocal(source) != IsLocal(layer)) --source;
  return static_cast<int>(source);
}

ValueId DecoderBuilder::Project(ValueId h, const Product& part) {
  const ValueId x = LinearPart(h, part);
  return config_.clamp_qkv == 0 ? x : graph_.Clamp(x, config_.clamp_qkv);
}

ValueId DecoderBuilder::Attention(ValueId h, size_t layer) {
  const auto name = [&](const char* stem) { return LayerTensor(layer, stem); };
  AttentionSpec spec = Spec(layer);
  spec.kv_layer = KvLayer(layer);
  BindHeadNorms(layer, spec);
  const size_t widths[] = {spec.heads * spec.key_dim, spec.kv_heads * spec.key_dim, spec.kv_heads * spec.value_dim};
  const bool fused = style_.fused_qkv || bind_.Has(name("attn_qkv.weight"));
  const auto project = [&](size_t i, const char* stem) {
    if (!fused) return Project(h, {name(stem), widths[i], 0, widths[i]});
    const size_t first = (i > 0 ? widths[0] : 0) + (i > 1 ? widths[1] : 0);
    return Project(h, {name("attn_qkv"), widths[0] + widths[1] + widths[2], first, widths[i]});
  };
  const bool rows = style_.norms == QueryKeyNorms::kRows;
  ValueId attended, q = project(0, "attn_q");
  if (rows) q = Norm(q, name("attn_q_norm"), widths[0]);
  if (spec.kv_layer >= 0) {
    attended = graph_.SharedAttention(q, spec.kv_layer, spec);
  } else {
    ValueId k = project(1, "attn_k");
    const ValueId v = project(2, "attn_v");
    if (rows) k = Norm(k, name("attn_k_norm"), widths[1]);
    attended = graph_.Attention(q, k, v, spec);
  }
  const size_t width = spec.heads * spec.value_dim;
  if (style_.attention.inside != nullptr) attended = Norm(attended, name(style_.attention.inside), width);
  return Linear(attended, name("attn_output"), config_.width, width);
}

ValueId DecoderBuilder::Network(ValueId h, size_t layer) {
  const auto name = [&](const char* stem) { return LayerTensor(layer, stem); };
  const size_t ffn = config_.ffn_widths.empty() ? config_.ffn_width : config_.ffn_widths[layer];
  ValueId hidden;
  if (style_.network == FeedForward::kPlain) {
    hidden = graph_.Activation(Linear(h, name("ffn_up"), ffn, config_.width), style_.activation);
  } else {
    const bool fused = style_.network == FeedForward::kFusedGated;
    const ValueId gate =
        fused ? LinearPart(h, {name("ffn_up"), 2 * ffn, 0, ffn}) : LinearPart(h, {name("ffn_gate"), ffn, 0, ffn});
    const ValueId up =
        fused ? LinearPart(h, {name("ffn_up"), 2 * ffn, ffn, ffn}) : LinearPart(h, {name("ffn_up"), ffn, 0, ffn});
    hidden = graph_.Gate(gate, up, style_.activation);
  }
  if (style_.feed_forward.inside != nullptr) hidden = Norm(hidden, name(style_.feed_forward.inside), ffn);
  return Linear(hidden, name("ffn_down"), config_.width, ffn);
}

ValueId DecoderBuilder::Mixture(ValueId x, ValueId h, size_t layer) {
  const ModelConfig& c = config_;
  const auto name = [&](const char* stem) { return LayerTensor(layer, stem); };
  const auto experts = [&](const char* stem, size_t outputs, size_t inputs) {
    return bind_.Experts(name(stem), c.experts, outputs, inputs);
  };
  ExpertsSpec spec;
  spec.route.experts = c.experts;
  spec.route.used = c.experts_used;
  spec.route.scores = style_.scores;
  spec.route.normalise = style_.normalise_weights;
  spec.route.scale = c.residual_scale;  // of what the experts add, as in Join
  const ValueId logits = graph_.Linear(h, bind_.Matrix(name("ffn_gate_inp.weight"), c.experts, c.width));
  const ExpertWeights weights = {experts("ffn_gate_exps.weight", c.expert_width, c.width),
                                 experts("ffn_up_exps.weight", c.expert_width, c.width),
                                 experts("ffn_down_exps.weight", c.width, c.expert_width)};
  const ValueId y = graph_.Add(x, graph_.Experts(h, logits, weights, spec));
  if (style_.shared_expert == SharedExpert::kNone || c.shared_expert_width == 0) return y;
  const ValueId gate = graph_.Linear(h, bind_.Matrix(name("ffn_gate_inp_shexp.weight"), 1, c.width));
  const ValueId shared =
      GatedFeedForward(graph_, h, bind_.Matrix(name("ffn_gate_shexp.weight"), c.shared_expert_width, c.width),
                       bind_.Matrix(name("ffn_up_shexp.weight"), c.shared_expert_width, c.width),
                       bind_.Matrix(name("ffn_down_shexp.weight"), c.width, c.shared_expert_width));
  return Join(y, graph_.SigmoidGate(gate, shared), {}, layer);
}

ValueId DecoderBuilder::Layer(ValueId x, size_t layer) {
  const auto before = [&](ValueId value, const BlockNorms& norms) {
    return norms.before == nullptr ? value : Norm(value, LayerTensor(layer, norms.before), config_.width);
  };
  graph_.SetLayer(static_cast<int>(layer));
  const ValueId h = before(x, style_.attention);
  const ValueId y = Join(x, Attention(h, layer), style_.attention, layer);
  const BlockNorms& norms = style_.feed_forward;
  const ValueId input = !style_.parallel || norms.before == nullptr ? (style_.parallel ? h : y) : x;
  const ValueId g = before(input, norms);
  return config_.experts == 0 ? Join(y, Network(g, layer), norms, layer) : Mixture(y, g, layer);
}

ValueId DecoderBuilder::Embedding() {
  ValueId x = graph_.Embed(bind_.Matrix("token_embd.weight", config_.vocab, config_.width));
  if (config_.embedding_scale != 1) x = graph_.Scale(x, config_.embedding_scale);
  if (style_.positions) {
    const WeightId table = bind_.Table("position_embd.weight", config_.n_ctx_train, config_.width);
    const WeightId type =
        style_.token_types ? bind_.Row("token_types.weight", config_.token_types, config_.width, 0) : kNoWeight;
    x = graph_.AddPositions(x, table, type);
  }
  return style_.embedding_norm == nullptr ? x : Norm(x, style_.embedding_norm, config_.width);
}

// Tied to the embedding where the file has no head.
void DecoderBuilder::Head(ValueId x) {
  graph_.SetLayer(-1);
  x = Norm(x, style_.final_norm, config_.width);
  if (config_.logit_divisor != 1) x = graph_.Scale(x, 1 / config_.logit_divisor);
  const bool tied = !bind_.Has("output.weight");
  const WeightId head = bind_.Matrix(tied ? "token_embd.weight" : "output.weight", config_.vocab, config_.width);
  graph_.Logits(x, head, bind_.OptionalVector("output.bias", config_.vocab), config_.logit_softcap, config_.pooling);
}

void DecoderBuilder::Build() {
  ValueId x = Embedding();
  for (size_t layer = 0; layer < config_.layers; ++layer) {
    x = Layer(x, layer);
    graph_.EndLayer(x);
  }
  Head(x);
}

}  // namespace moonlit
