// SPDX-License-Identifier: Apache-2.0
#include "models/common/blocks.h"

#include <cmath>

#include "runtime/graph/composites.h"

namespace moonlit {
namespace {

// x + residual_scale * y
ValueId AddBlock(Graph& graph, ValueId x, ValueId y, const ModelConfig& config) {
  return graph.Add(x, config.residual_scale == 1 ? y : graph.Scale(y, config.residual_scale));
}

}  // namespace

AttentionWeights BindAttention(WeightBinder& bind, const ModelConfig& c, size_t layer, QueryKeyNorms norms) {
  const auto name = [&](const char* stem) { return LayerTensor(layer, stem); };
  const size_t q_width = c.heads * c.key_dim, k_width = c.kv_heads * c.key_dim, v_width = c.kv_heads * c.value_dim;
  AttentionWeights w;
  w.norm = bind.Vector(name("attn_norm.weight"), c.width);
  w.q = bind.Matrix(name("attn_q.weight"), q_width, c.width);
  w.k = bind.Matrix(name("attn_k.weight"), k_width, c.width);
  w.v = bind.Matrix(name("attn_v.weight"), v_width, c.width);
  w.o = bind.Matrix(name("attn_output.weight"), c.width, c.heads * c.value_dim);
  w.q_bias = bind.OptionalVector(name("attn_q.bias"), q_width);
  w.k_bias = bind.OptionalVector(name("attn_k.bias"), k_width);
  w.v_bias = bind.OptionalVector(name("attn_v.bias"), v_width);
  w.o_bias = bind.OptionalVector(name("attn_output.bias"), c.width);
  w.q_norm = w.k_norm = kNoWeight;
  w.norms = norms;
  if (norms != QueryKeyNorms::kNone) {
    const bool rows = norms == QueryKeyNorms::kRows;
    w.q_norm = bind.Vector(name("attn_q_norm.weight"), rows ? q_width : c.key_dim);
    w.k_norm = bind.Vector(name("attn_k_norm.weight"), rows ? k_width : c.key_dim);
  }
  return w;
}

FeedForwardWeights BindFeedForward(WeightBinder& bind, const ModelConfig& config, size_t layer) {
  return {bind.Vector(LayerTensor(layer, "ffn_norm.weight"), config.width),
          bind.Matrix(LayerTensor(layer, "ffn_gate.weight"), config.ffn_width, config.width),
          bind.Matrix(LayerTensor(layer, "ffn_up.weight"), config.ffn_width, config.width),
          bind.Matrix(LayerTensor(layer, "ffn_down.weight"), config.width, config.ffn_width)};
}

MixtureWeights BindMixture(WeightBinder& bind, const ModelConfig& c, size_t layer, SharedExpert shared) {
  const auto name = [&](const char* stem) { return LayerTensor(layer, stem); };
  MixtureWeights w;
  w.norm = bind.Vector(name("ffn_norm.weight"), c.width);
  w.router = bind.Matrix(name("ffn_gate_inp.weight"), c.experts, c.width);
  w.experts.gate = bind.Experts(name("ffn_gate_exps.weight"), c.experts, c.expert_width, c.width);
  w.experts.up = bind.Experts(name("ffn_up_exps.weight"), c.experts, c.expert_width, c.width);
  w.experts.down = bind.Experts(name("ffn_down_exps.weight"), c.experts, c.width, c.expert_width);
  w.shared_gate = w.shared_up = w.shared_down = w.shared_weight = kNoWeight;
  if (shared == SharedExpert::kSigmoidGated && c.shared_expert_width != 0) {
    w.shared_weight = bind.Matrix(name("ffn_gate_inp_shexp.weight"), 1, c.width);
    w.shared_gate = bind.Matrix(name("ffn_gate_shexp.weight"), c.shared_expert_width, c.width);
    w.shared_up = bind.Matrix(name("ffn_up_shexp.weight"), c.shared_expert_width, c.width);
    w.shared_down = bind.Matrix(name("ffn_down_shexp.weight"), c.width, c.shared_expert_width);
  }
  return w;
}

AttentionSpec DecoderAttention(const ModelConfig& config, const AttentionWeights& weights) {
  AttentionSpec spec;
  spec.heads = config.heads;
  spec.kv_heads = config.kv_heads;
  spec.key_dim = config.key_dim;
  spec.value_dim = config.value_dim;
  spec.scale = config.attention_scale != 0 ? config.attention_scale
                                           : static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.key_dim)));
  spec.rope = config.rope;
  if (weights.norms == QueryKeyNorms::kHeads) {
    spec.q_norm = weights.q_norm;
    spec.k_norm = weights.k_norm;
  }
  spec.norm_eps = config.rms_eps;
  return spec;
}

ValueId AttentionBlock(Graph& graph, ValueId x, const ModelConfig& config, const AttentionWeights& weights) {
  const ValueId h = graph.RmsNorm(x, weights.norm, config.rms_eps);
  ValueId q = graph.Linear(h, weights.q, weights.q_bias);
  ValueId k = graph.Linear(h, weights.k, weights.k_bias);
  const ValueId v = graph.Linear(h, weights.v, weights.v_bias);
  if (weights.norms == QueryKeyNorms::kRows) {
    q = graph.RmsNorm(q, weights.q_norm, config.rms_eps);
    k = graph.RmsNorm(k, weights.k_norm, config.rms_eps);
  }
  const ValueId attended = graph.Attention(q, k, v, DecoderAttention(config, weights));
  return AddBlock(graph, x, graph.Linear(attended, weights.o, weights.o_bias), config);
}

ValueId FeedForwardBlock(Graph& graph, ValueId x, const ModelConfig& config, const FeedForwardWeights& weights) {
  const ValueId h = graph.RmsNorm(x, weights.norm, config.rms_eps);
  return AddBlock(graph, x, GatedFeedForward(graph, h, weights.gate, weights.up, weights.down), config);
}

ValueId MixtureBlock(Graph& graph, ValueId x, const ModelConfig& config, const MixtureWeights& weights,
                     const DecoderStyle& style) {
  ExpertsSpec spec;
  spec.route.experts = config.experts;
  spec.route.used = config.experts_used;
  spec.route.scores = style.scores;
  spec.route.normalise = style.normalise_weights;
  spec.route.scale = config.residual_scale;  // of what the experts add, as in AddBlock
  const ValueId h = graph.RmsNorm(x, weights.norm, config.rms_eps);
  ValueId y = graph.Add(x, graph.Experts(h, graph.Linear(h, weights.router), weights.experts, spec));
  if (weights.shared_weight == kNoWeight) return y;
  const ValueId gate = graph.Linear(h, weights.shared_weight);
  const ValueId shared = GatedFeedForward(graph, h, weights.shared_gate, weights.shared_up, weights.shared_down);
  return AddBlock(graph, y, graph.SigmoidGate(gate, shared), config);
}

void BuildDecoder(WeightBinder& bind, Graph& graph, const ModelConfig& config, const DecoderStyle& style) {
  const WeightId embedding = bind.Matrix("token_embd.weight", config.vocab, config.width);
  ValueId x = graph.Embed(embedding);
  if (config.embedding_scale != 1) x = graph.Scale(x, config.embedding_scale);
  for (size_t layer = 0; layer < config.layers; ++layer) {
    graph.SetLayer(static_cast<int>(layer));
    x = AttentionBlock(graph, x, config, BindAttention(bind, config, layer, style.norms));
    x = config.experts == 0
            ? FeedForwardBlock(graph, x, config, BindFeedForward(bind, config, layer))
            : MixtureBlock(graph, x, config, BindMixture(bind, config, layer, style.shared_expert), style);
  }
  graph.SetLayer(-1);
  x = graph.RmsNorm(x, bind.Vector("output_norm.weight", config.width), config.rms_eps);
  if (config.logit_divisor != 1) x = graph.Scale(x, 1 / config.logit_divisor);
  const WeightId head = bind.OptionalMatrix("output.weight", config.vocab, config.width);  // tied where there is none
  graph.Logits(x, head == kNoWeight ? embedding : head);
}

}  // namespace moonlit
