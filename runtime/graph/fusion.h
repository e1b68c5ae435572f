// SPDX-License-Identifier: Apache-2.0
// From nodes to stages: what runs as one parallel loop. Passes fuse stages, never weights: real files store Q, K and V in
// different formats.
//
//   - Products of one input become one stage over one (quantized) activation: Q, K, V.
//   - gate and up with the Gate that joins them become one stage that works tile by tile on both; so does one product with its
//     Activation.
//   - A Linear that only feeds an Add takes the other side as its addend; its output takes the addend's storage if that side is
//     needed no more (the residual stream stays in one buffer).
//   - A Norm that only feeds products is one stage with the quantization of its result (kActivate). Other product inputs get
//     a kActivate stage without a norm.
//   - Experts are four stages: rows choose, their activations are gathered by expert, gate and up as above, and down, which takes
//     an addend like a Linear.
//   - The last norm and the head are one stage, which runs on the wanted rows only; the stages between the last cache write (or
//     change of a recurrent state) and the head are marked, so that a chunk of a prompt need not compute them at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/graph/graph.h"

namespace moonlit {

enum class StageKind : uint8_t {
  kEmbed,            // token ids -> output (parts[0].weight is the table)
  kAddPositions,     // input + rows of a table by position (parts[0]: table, bias) -> output
  kActivate,         // input, normalised if norm is set -> product input `output` (a product's form: see exec)
  kNorm,             // input -> output as plain floats: a norm that something other than a product reads
  kProducts,         // product input -> parts[i].output = x W^T (+ bias) (+ addend)
  kGatedProducts,    // product input -> output = gate(x parts[0]^T) * (x parts[1]^T), or gate(x parts[0]^T) alone
  kGate,             // inputs gate (input) and up (input_b) -> output, when they could not be fused
  kActivation,       // input -> output, likewise
  kAdd,              // input + input_b -> output, likewise
  kScale,            // input * factor (* factor_weight) -> output
  kClamp,            // input, into [-factor, factor] -> output
  kColumns,          // columns of input from first_column on -> output
  kSigmoidGate,      // input_b, each row by the sigmoid of input -> output
  kRoute,            // router's logits (input): every row chooses its experts
  kGatherExperts,    // product input `input` -> the same rows, ordered by expert
  kGatedExperts,     // gathered rows (input) -> gate(x parts[0]^T) * (x parts[1]^T), by the row's expert
  kDownExperts,      // the former -> parts[0].output = weighted sum over a row's experts (+ addend)
  kQkvPost,          // queries (input) and keys (input_b): head norms, RoPE; keys and values (input_c) go to the cache,
                     // unless they are an earlier layer's (input_b is not set)
  kAttention,        // queries (input) over the cache -> output
  kShortConv,        // input -> output, by the state; silu if set. parts[0] is weight and bias
  kLinearAttention,  // queries (input), keys (input_b), values (input_c) -> output, by the state
  kGatedDelta,       // the same with decays (input_d) and betas (input_e)
  kDecay,            // input -> output. parts[0] is rate and bias
  kSigmoid,          // input -> output
  kPairScores,  // queries (input), keys (input_b) -> their products, a column a key (parts[0]: what additive ones weigh by)
  kSoftmax,      // input -> output, in pairs.heads equal parts (parts[0]: their sinks)
  kWeightedSum,  // weights (input), values (input_b) -> output
  kHidden,       // wanted rows of input, as they are
  kHead,         // wanted rows of input: norm, product with parts[0] -> logits
};
const char* StageKindName(StageKind kind);
// Whether the stage's parts are products that adapters may add to.
inline bool HasLowRankAddends(StageKind kind) {
  return kind == StageKind::kProducts || kind == StageKind::kGatedProducts || kind == StageKind::kHead;
}

struct ProductPart {
  WeightId weight;
  WeightId bias = kNoWeight;
  ValueId output = kNoValue;
  ValueId addend = kNoValue;
};

struct FusedStage {
  StageKind kind;
  int layer;
  ValueId input = kNoValue, input_b = kNoValue, input_c = kNoValue;
  ValueId input_d = kNoValue, input_e = kNoValue;
  ValueId output = kNoValue;
  std::optional<NormSpec> norm;  // kActivate, kNorm, kHead
  ActivationKind gate = ActivationKind::kSilu;
  float factor = 1;  // kScale; kClamp: the limit; kHead: the softcap, 0: off
  WeightId factor_weight = kNoWeight;
  size_t first_column = 0;
  std::vector<ProductPart> parts;
  ExpertsSpec experts;           // the four stages of experts
  uint32_t experts_index = 0;    // counts the experts nodes
  AttentionSpec attention;       // kQkvPost, kAttention
  uint32_t attention_index = 0;  // counts the attention nodes
  uint32_t kv_index = 0;         // the attention node whose cache it reads: itself, or an earlier one
  RecurrentSpec recurrent;       // kLinearAttention, kGatedDelta
  bool silu = false;             // kShortConv
  uint32_t state_index = 0;      // counts the nodes with a state: kShortConv, kLinearAttention, kGatedDelta
  PairSpec pairs;                // kPairScores, kWeightedSum; kSoftmax: heads alone
  // After the last cache write, the last change of a state and the last stage that reads other rows: nothing but the head reads these rows, so only those that lead to wanted outputs matter.
  bool tail = false;
};

struct FusedGraph {
  std::vector<FusedStage> stages;
  // storage[v]: values with equal storage share one buffer (always of equal width).
  std::vector<ValueId> storage;
  uint32_t attention_nodes = 0;
  uint32_t experts_nodes = 0;
  uint32_t state_nodes = 0;
  std::string Dump(const Graph& graph) const;
};

// REQUIRES: graph.Finish() is OK.
FusedGraph Fuse(const Graph& graph);

}  // namespace moonlit
