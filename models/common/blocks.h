// SPDX-License-Identifier: Apache-2.0
// The blocks that decoder-only transformers are made of, as graph builders: no speed in here, only what is computed.
#pragma once

#include <cstddef>

#include "models/common/config.h"
#include "models/common/weight_binder.h"
#include "runtime/graph/graph.h"

namespace moonlit {

struct AttentionWeights {
  WeightId norm;  // [d]
  WeightId q, k, v,
      o;  // [heads * key_dim, d], [kv_heads * key_dim, d], [kv_heads * value_dim, d], [d, heads * value_dim]
  WeightId q_bias, k_bias, v_bias, o_bias;  // kNoWeight where the file has none
  WeightId q_norm, k_norm;                  // [key_dim], likewise
};

struct FeedForwardWeights {
  WeightId norm;            // [d]
  WeightId gate, up, down;  // [ffn, d], [ffn, d], [d, ffn]
};

struct DecoderWeights {
  WeightId embedding;                            // [vocab, d]
  WeightId output_norm;                          // [d]
  WeightId head;                                 // [vocab, d]; the embedding when the file has no output.weight (tied)
  std::vector<AttentionWeights> attention;       // [layers]
  std::vector<FeedForwardWeights> feed_forward;  // [layers]
};

enum class HeadNorms { kNone, kRequired };  // RMS norms of every query and key head before RoPE

// Binds the usual names (token_embd, blk.N.attn_q, ...). Faults are in bind.status().
DecoderWeights BindDecoder(WeightBinder& bind, const ModelConfig& config, HeadNorms head_norms);

// Attention over the cache with one scale, no window: what the llama family uses.
AttentionSpec DecoderAttention(const ModelConfig& config, const AttentionWeights& weights);

// x + W_o attention(W_q norm(x), W_k norm(x), W_v norm(x))
ValueId AttentionBlock(Graph& graph, ValueId x, const ModelConfig& config, const AttentionWeights& weights);

// x + W_down (silu(W_gate norm(x)) * W_up norm(x))
ValueId FeedForwardBlock(Graph& graph, ValueId x, const ModelConfig& config, const FeedForwardWeights& weights);

}  // namespace moonlit
