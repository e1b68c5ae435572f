// SPDX-License-Identifier: Apache-2.0
// The blocks that transformers are made of, as graph builders: no speed in here, only what is computed. An architecture says in a
// DecoderStyle what sets its family apart; where a family has a part of its own, it builds that from the parts of DecoderBuilder.
//
//   DecoderBuilder(bind, graph, config, {.norms = QueryKeyNorms::kHeads}).Build();
#pragma once

#include <cstddef>
#include <string>

#include "models/common/config.h"
#include "models/common/weight_binder.h"
#include "runtime/graph/graph.h"

namespace moonlit {

enum class QueryKeyNorms {
  kNone,
  kHeads,         // an RMS norm of every query and key head before RoPE, with one weight for all heads
  kRows,          // one over all heads together
  kHeadsByWeight  // a norm of the style's kind of every head, with a weight for each, where the file has them
};

// Names of the norms around a block, without ".weight"; null where there is none.
struct BlockNorms {
  const char* before = nullptr;  // of the block's input
  const char* inside = nullptr;  // before the block's last product
  const char* after = nullptr;   // of what the block adds
  const char* of_sum = nullptr;  // of the sum, which the next block starts from
};

enum class FeedForward {
  kGated,       // down(f(gate x) * up x), Shazeer 2020, arXiv:2002.05202
  kFusedGated,  // the same, gate and up in one tensor ffn_up
  kPlain,       // down(f(up x))
};

// Its output may be multiplied by the sigmoid of a product with its input.
enum class SharedExpert { kNone, kSigmoidGated };

// What sets the models of one family apart.
struct DecoderStyle {
  NormKind norm = NormKind::kRms;
  bool norm_weights = true;  // norms have a weight, and a bias where the file has one
  BlockNorms attention = {.before = "attn_norm"};
  BlockNorms feed_forward = {.before = "ffn_norm"};  // parallel, without `before`: of what attention's norm gives
  const char* embedding_norm = nullptr;
  const char* final_norm = "output_norm";
  bool parallel = false;     // the feed-forward network reads what attention reads: x + attention(x) + network(x)
  bool token_types = false;  // of the config's, the first one's vector is added to the embedding
  bool positions = false;    // learned ones, position_embd, are added to the embedding
  QueryKeyNorms norms = QueryKeyNorms::kNone;
  bool value_norms = false;  // an RMS norm without weight of every head of the values
  bool fused_qkv = false;    // queries, keys and values come from one tensor attn_qkv
  FeedForward network = FeedForward::kGated;
  ActivationKind activation = ActivationKind::kSilu;
  // Used where the config has experts.
  RouterScores scores = RouterScores::kSoftmax;
  bool normalise_weights = false;
  SharedExpert shared_expert = SharedExpert::kNone;
};

// Binds the usual names (token_embd, blk.N.attn_q, ...) and builds from them. Faults are in bind.status() and graph.Finish().
// Short-lived: keeps references.
class DecoderBuilder {
 public:
  DecoderBuilder(WeightBinder& bind, Graph& graph, const ModelConfig& config, const DecoderStyle& style)
      : bind_(bind), graph_(graph), config_(config), style_(style) {}

  // Everything from the embedding to the logits.
  void Build();

  // Its parts. `name` is a tensor's without ".weight" and ".bias".
  ValueId Embedding();                     // with its scale, positions and norm
  ValueId Layer(ValueId x, size_t layer);  // attention and the network, each added to x
  void Head(ValueId x);                    // final norm, logits

  // W_o attention(W_q h, W_k h, W_v h), for h that is normalised already
  ValueId Attention(ValueId h, size_t layer);
  ValueId Network(ValueId h, size_t layer);
  // x + the experts that the router chooses for h (+ the shared one)
  ValueId Mixture(ValueId x, ValueId h, size_t layer);

  ValueId Linear(ValueId x, const std::string& name, size_t outputs, size_t inputs);
  ValueId Norm(ValueId x, const std::string& name, size_t width);
  // x + residual_scale * norms.after(y), normalised by norms.of_sum
  ValueId Join(ValueId x, ValueId y, const BlockNorms& norms, size_t layer);
  // Sizes, scale, window, softcap, RoPE of the layer; no norms.
  AttentionSpec Spec(size_t layer) const;

 private:
  NormSpec BindNorm(const std::string& name, size_t width);
  bool IsLocal(size_t layer) const { return !config_.local.empty() && config_.local[layer]; }
  // The earlier layer whose keys and values this one reads, or -1.
  int KvLayer(size_t layer) const;
  struct Product {
    std::string name;  // of the whole tensor
    size_t outputs, first, count;
  };
  ValueId LinearPart(ValueId x, const Product& part);
  ValueId Project(ValueId h, const Product& part);
  void BindHeadNorms(size_t layer, AttentionSpec& spec);

  WeightBinder& bind_;
  Graph& graph_;
  const ModelConfig& config_;
  const DecoderStyle style_;
};

}  // namespace moonlit
