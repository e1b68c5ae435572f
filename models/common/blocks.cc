// SPDX-License-Identifier: Apache-2.0
#include "models/common/blocks.h"

#include <cmath>

#include "runtime/graph/composites.h"

namespace moonlit {
namespace {

AttentionWeights BindAttention(WeightBinder& bind, const ModelConfig& c, size_t layer, HeadNorms head_norms) {
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
  if (head_norms == HeadNorms::kRequired) {
    w.q_norm = bind.Vector(name("attn_q_norm.weight"), c.key_dim);
    w.k_norm = bind.Vector(name("attn_k_norm.weight"), c.key_dim);
  }
  return w;
}

}  // namespace

DecoderWeights BindDecoder(WeightBinder& bind, const ModelConfig& config, HeadNorms head_norms) {
  DecoderWeights w;
  w.embedding = bind.Matrix("token_embd.weight", config.vocab, config.width);
  w.output_norm = bind.Vector("output_norm.weight", config.width);
  w.head = bind.OptionalMatrix("output.weight", config.vocab, config.width);
  if (w.head == kNoWeight) w.head = w.embedding;
  for (size_t layer = 0; layer < config.layers; ++layer) {
    w.attention.push_back(BindAttention(bind, config, layer, head_norms));
    w.feed_forward.push_back({bind.Vector(LayerTensor(layer, "ffn_norm.weight"), config.width),
                              bind.Matrix(LayerTensor(layer, "ffn_gate.weight"), config.ffn_width, config.width),
                              bind.Matrix(LayerTensor(layer, "ffn_up.weight"), config.ffn_width, config.width),
                              bind.Matrix(LayerTensor(layer, "ffn_down.weight"), config.width, config.ffn_width)});
  }
  return w;
}

AttentionSpec DecoderAttention(const ModelConfig& config, const AttentionWeights& weights) {
  AttentionSpec spec;
  spec.heads = config.heads;
  spec.kv_heads = config.kv_heads;
  spec.key_dim = config.key_dim;
  spec.value_dim = config.value_dim;
  spec.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.key_dim)));
  spec.rope = config.rope;
  spec.q_norm = weights.q_norm;
  spec.k_norm = weights.k_norm;
  spec.norm_eps = config.rms_eps;
  return spec;
}

ValueId AttentionBlock(Graph& graph, ValueId x, const ModelConfig& config, const AttentionWeights& weights) {
  const ValueId h = graph.RmsNorm(x, weights.norm, config.rms_eps);
  const ValueId q = graph.Linear(h, weights.q, weights.q_bias);
  const ValueId k = graph.Linear(h, weights.k, weights.k_bias);
  const ValueId v = graph.Linear(h, weights.v, weights.v_bias);
  const ValueId attended = graph.Attention(q, k, v, DecoderAttention(config, weights));
  return graph.Add(x, graph.Linear(attended, weights.o, weights.o_bias));
}

ValueId FeedForwardBlock(Graph& graph, ValueId x, const ModelConfig& config, const FeedForwardWeights& weights) {
  const ValueId h = graph.RmsNorm(x, weights.norm, config.rms_eps);
  return graph.Add(x, GatedFeedForward(graph, h, weights.gate, weights.up, weights.down));
}

}  // namespace moonlit
