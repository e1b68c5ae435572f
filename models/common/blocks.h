// SPDX-License-Identifier: Apache-2.0
// The blocks that decoder-only transformers are made of, as graph builders: no speed in here, only what is computed.
#pragma once

#include <cstddef>

#include "models/common/config.h"
#include "models/common/weight_binder.h"
#include "runtime/graph/graph.h"

namespace moonlit {

enum class QueryKeyNorms {
  kNone,
  kHeads,  // an RMS norm of every query and key head before RoPE
  kRows,   // one over all heads together
};

struct AttentionWeights {
  WeightId norm;  // [d]
  WeightId q, k, v,
      o;  // [heads * key_dim, d], [kv_heads * key_dim, d], [kv_heads * value_dim, d], [d, heads * value_dim]
  WeightId q_bias, k_bias, v_bias, o_bias;  // kNoWeight where the file has none
  WeightId q_norm, k_norm;                  // [key_dim], or [heads * key_dim] and [kv_heads * key_dim], likewise
  QueryKeyNorms norms;
};

struct FeedForwardWeights {
  WeightId norm;            // [d]
  WeightId gate, up, down;  // [ffn, d], [ffn, d], [d, ffn]
};

struct MixtureWeights {
  WeightId norm;          // [d]
  WeightId router;        // [experts, d]
  ExpertWeights experts;  // [experts, expert_width, d] twice, [experts, d, expert_width]
  // The expert that every token uses, [shared_expert_width, d] twice, [d, shared_expert_width], and its gate, [1, d]; or
  // kNoWeight.
  WeightId shared_gate, shared_up, shared_down, shared_weight;
};

// Its output may be multiplied by the sigmoid of a product with its input.
enum class SharedExpert { kNone, kSigmoidGated };

// What sets the decoders of one family apart.
struct DecoderStyle {
  QueryKeyNorms norms = QueryKeyNorms::kNone;
  // Used where the config has experts.
  RouterScores scores = RouterScores::kSoftmax;
  bool normalise_weights = false;
  SharedExpert shared_expert = SharedExpert::kNone;
};

// A decoder of pre-norm layers: attention, then one feed-forward network or, where the config has experts, a mixture of them.
// Binds the usual names (token_embd, blk.N.attn_q, ...) and builds everything from the embedding to the logits. Faults are in
// bind.status() and graph.Finish().
void BuildDecoder(WeightBinder& bind, Graph& graph, const ModelConfig& config, const DecoderStyle& style);

// The blocks that it is made of. Each adds to x.

AttentionWeights BindAttention(WeightBinder& bind, const ModelConfig& config, size_t layer, QueryKeyNorms norms);
FeedForwardWeights BindFeedForward(WeightBinder& bind, const ModelConfig& config, size_t layer);
MixtureWeights BindMixture(WeightBinder& bind, const ModelConfig& config, size_t layer, SharedExpert shared);

// Attention over the cache with one scale, no window: what the llama family uses.
AttentionSpec DecoderAttention(const ModelConfig& config, const AttentionWeights& weights);

// x + W_o attention(W_q norm(x), W_k norm(x), W_v norm(x))
ValueId AttentionBlock(Graph& graph, ValueId x, const ModelConfig& config, const AttentionWeights& weights);

// x + W_down (silu(W_gate norm(x)) * W_up norm(x))
ValueId FeedForwardBlock(Graph& graph, ValueId x, const ModelConfig& config, const FeedForwardWeights& weights);

// x + the experts that the router chooses for norm(x) (+ the shared one)
ValueId MixtureBlock(Graph& graph, ValueId x, const ModelConfig& config, const MixtureWeights& weights,
                     const DecoderStyle& style);

}  // namespace moonlit
