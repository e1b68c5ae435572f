// SPDX-License-Identifier: Apache-2.0
// The graph of a model: what is computed, nothing about how. A model file builds it once; runtime/exec binds it to kernels.
//
//   Graph g;
//   WeightId norm = g.Weight("blk.0.attn_norm.weight", {d});
//   ValueId x = g.Embed(g.Weight("token_embd.weight", {vocab, d}));
//   g.SetLayer(0);
//   ValueId h = g.Norm(x, {.kind = NormKind::kRms, .eps = 1e-5f, .weight = norm});
//   ValueId y = g.Add(x, g.Linear(h, wq));
//   ...
//   g.Logits(g.Norm(x, output_norm), head);
//   MOONLIT_RETURN_IF_ERROR(g.Finish());
//
// Every value is [tokens, width]: tokens is a run-time number. Weights are named as in the file, with the shape that the
// architecture expects (row-major, [outputs, inputs]); an absent optional weight is kNoWeight.
//
// Building never fails on the spot, so that a model reads as its paper: the first broken shape rule is kept and returned by
// Finish, with the node and layer it happened in. Later nodes get values of width 0 and are not checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/graph/pooling.h"
#include "runtime/graph/recurrent.h"
#include "runtime/tensor/shape.h"

namespace moonlit {

using ValueId = uint32_t;
using WeightId = uint32_t;
inline constexpr ValueId kNoValue = UINT32_MAX;
inline constexpr WeightId kNoWeight = UINT32_MAX;

enum class Op : uint8_t {
#define MOONLIT_OP(enumerator, name, inputs, fewest, most, attributes, rule) enumerator,
#include "runtime/graph/ops.inc"
#undef MOONLIT_OP
};

// Which elements of a head RoPE turns together (Su et al. 2021, arXiv:2104.09864).
enum class RopePairs : uint8_t {
  kNone,
  kNeighbours,  // (2i, 2i + 1): llama, as GGUF's converter permutes its rows
  kHalves,      // (i, i + dims / 2): "neox", qwen
};

enum class RopeMethod : uint8_t { kNone, kLinear, kYarn };

struct RopeSpec {
  RopePairs pairs = RopePairs::kNone;
  size_t dims = 0;  // elements of a head that turn: even, at most key_dim; the rest passes through
  double base = 10000.0;
  RopeMethod method = RopeMethod::kNone;
  double factor = 1.0;                   // kLinear, kYarn: how many times longer than the trained context
  double original_context = 0;           // kYarn
  double beta_fast = 32, beta_slow = 1;  // kYarn: rotations over the original context that bound the ramp
  double magnitude = 1.0;                // multiplies cos and sin, beside YaRN's own temperature
  WeightId divisors = kNoWeight;         // [dims / 2] divisors of the frequencies (Llama 3's rope_freqs), or kNoWeight
  bool operator==(const RopeSpec&) const = default;
};

// Multiplies the rotated query at position p by 1 + scale * ln(1 + floor((p + offset) / floor)): llama 4, where a layer does not
// rotate (offset 1).
struct QueryTemperature {
  size_t floor = 0;  // 0: off
  double scale = 0;
  size_t offset = 0;
};

enum class NormKind : uint8_t { kRms, kLayer };

// One attention layer. Positions are those of the text as it stands now, that is slots of the cache: after a context shift
// windows, chunks and ALiBi go by the places that the tokens have then (docs/design.md).
struct AttentionSpec {
  size_t heads = 0;
  size_t kv_heads = 0;  // divides heads; query head h reads KV head h / (heads / kv_heads)
  size_t key_dim = 0;   // head size of queries and keys
  size_t value_dim = 0;
  float scale = 0;    // multiplies q . k
  float softcap = 0;  // score = softcap * tanh(score / softcap), before ALiBi; 0: off
  // Key j is visible to query i iff j <= i and every rule below holds.
  size_t window = 0;  // i - j < window; 0: no limit
  size_t chunk = 0;   // i / chunk == j / chunk (llama 4); 0: no limit
  // An encoder (bert): the tokens of a sequence all come in one step and see each other whatever their order; a window then
  // goes both ways, |i - j| < window. No chunk.
  bool bidirectional = false;
  // ALiBi (Press et al. 2022, arXiv:2108.12409): score -= slope(h) * (i - j), see AlibiSlope; 0: off. bloom: 8.
  float alibi_max_bias = 0;
  float alibi_scale = 1;       // multiplies the slopes: falcon scales the sum of score and bias
  WeightId sinks = kNoWeight;  // [heads] logits that join a row's softmax and have no value (gpt-oss), or kNoWeight
  RopeSpec rope;               // RopePairs::kNone: this layer does not rotate
  QueryTemperature temperature;
  // Norm of every head before RoPE: a weight for all heads, [key_dim], or one a head, [heads, key_dim] and
  // [kv_heads, key_dim] (Graph::Table); or kNoWeight.
  WeightId q_norm = kNoWeight;
  WeightId k_norm = kNoWeight;
  NormKind norm_kind = NormKind::kRms;
  bool plain_norms = false;  // heads of q and k without a weight are normalised too (llama 4)
  bool value_norm = false;   // RMS norm without a weight of every head of v (gemma 4)
  float norm_eps = 0;
  int kv_layer = -1;  // Graph::SharedAttention's
};

// 2^(-max_bias / n * (h + 1)) for the first n heads, n the largest power of two up to `heads`, then what lies between them for
// twice as many, 2^(-max_bias / 2n * (2 (h - n) + 1)): the paper's code (ofirpress/attention_with_linear_biases), bloom, and
// mpt, which spells it the other way round.
float AlibiSlope(float max_bias, size_t heads, size_t head);

// What follows an up product, or the gate's (kernels/activation has the formulas).
enum class ActivationKind : uint8_t { kSilu, kGelu, kGeluTanh, kReluSquared };

// x / sqrt(mean(x^2) + eps) * weight (arXiv:1910.07467), or (x - mean) / sqrt(variance + eps) * weight + bias (arXiv:1607.06450),
// over a row or over each of its `heads` equal parts.
struct NormSpec {
  NormKind kind = NormKind::kRms;
  float eps = 0;
  size_t heads = 1;
  // Plain floats: as many as the row has, or as one part has for all of them; kNoWeight: 1, 0.
  WeightId weight = kNoWeight;
  WeightId bias = kNoWeight;  // kLayer only
};

// How the scores of a router become the weights of the experts that it chooses.
enum class RouterScores : uint8_t {
  kSoftmax,          // softmax over all experts, of which the chosen keep theirs: mixtral, qwen, olmoe
  kSoftmaxOfChosen,  // softmax over the logits of the chosen: granite, gpt-oss
  kSigmoid,          // of each logit alone: deepseek v3, llama 4
};

// A row chooses its `used` best experts: by logit, or, where there is a selection bias, by score (logit for kSoftmaxOfChosen)
// plus bias, which does not enter the weights. Of equals the lower number is first; NaN comes after everything else. The
// weights of a row with a NaN logit are NaN where its scores are (all of them after a softmax); other rows keep theirs.
struct RouteSpec {
  size_t experts = 0;
  size_t used = 0;  // experts of a row, at most all
  RouterScores scores = RouterScores::kSoftmax;
  bool normalise = false;  // the chosen weights are divided by their sum (at least the smallest normal float)
  float scale = 1;         // multiplies the weights, last
  WeightId selection_bias = kNoWeight;  // [experts]
};

inline constexpr size_t kMostExperts = 4096;

struct ExpertsSpec {
  RouteSpec route;
  ActivationKind gate = ActivationKind::kSilu;
  // The weight multiplies an expert's input (llama 4) instead of its output.
  bool weigh_inputs = false;
};

// Of all experts, [experts, ffn, d], [experts, ffn, d], [experts, out, ffn]; biases [experts, ffn], [experts, ffn],
// [experts, out] (Graph::Table), all three or none.
struct ExpertWeights {
  WeightId gate, up, down;
  WeightId gate_bias = kNoWeight, up_bias = kNoWeight, down_bias = kNoWeight;
};

// Attention in its plain form, with the table of scores as a value: what Graph::Attention computes and never stores. For lessons
// and for looking into a layer. A sequence is fed in one step (there is no cache), with at most `keys` tokens.
struct PairSpec {
  size_t keys = 0;  // columns of a head's scores
  size_t heads = 1;
  size_t kv_heads = 1;  // divides heads; query head h reads KV head h / (heads / kv_heads)
  float softcap = 0;    // PairScores: score = softcap * tanh(score / softcap); 0: off
};

inline constexpr size_t kMostPairs = size_t{1} << 22;  // heads * keys

struct EmbedAttributes {};
struct AddPositionsAttributes {};
struct LinearAttributes {};
struct AddAttributes {};
struct GateAttributes {
  ActivationKind kind;
};
struct ActivationAttributes {
  ActivationKind kind;
};
struct ScaleAttributes {
  float factor;
};
struct ClampAttributes {
  float limit;
};
struct ColumnsAttributes {
  size_t first, count;
};
struct SigmoidGateAttributes {};
struct ShortConvAttributes {
  bool silu;
};
struct DecayAttributes {};
struct SigmoidAttributes {};
struct SoftmaxAttributes {
  size_t parts;
};
struct HiddenAttributes {
  Pooling pooling;
};
struct LogitsAttributes {
  float softcap;
  Pooling pooling;  // of the hidden states, where the model's file says how a text becomes a vector
};

using Attributes =
    std::variant<EmbedAttributes, AddPositionsAttributes, NormSpec, LinearAttributes, AttentionSpec, AddAttributes,
                 GateAttributes, ActivationAttributes, ScaleAttributes, ClampAttributes, ColumnsAttributes,
                 SigmoidGateAttributes, ExpertsSpec, RecurrentSpec, ShortConvAttributes, DecayAttributes,
                 SigmoidAttributes, PairSpec, SoftmaxAttributes, HiddenAttributes, LogitsAttributes>;

struct Value {
  size_t width;       // [tokens, width]
  uint32_t producer;  // index of the node
};

struct WeightSpec {
  std::string name;  // of the tensor, with "[first:end]" behind it for rows of one
  Shape shape;
  bool is_table;  // held as plain floats: vectors, and what Graph::Table declares
  std::string tensor;
  Shape
      tensor_shape;  // equal to shape but for its outermost dimension, which one row of a table (Graph::Row) does not have
  size_t first_row = 0;  // along that
};

struct Node {
  Op op;
  int layer;  // -1 outside the layers
  std::vector<ValueId> inputs;
  std::vector<WeightId>
      weights;  // kLinear: matrix, then the bias if there is one; kExperts: gate, up, down, then biases
  ValueId output;
  Attributes attributes;
};

struct LayerEnd {
  int layer;
  ValueId stream;
};

const char* OpName(Op op);

// Built by one thread, then immutable; const functions are thread safe.
class Graph {
 public:
  // Declares a weight; the same name twice gives the same id (a tied head) and must have the same shape.
  WeightId Weight(std::string name, Shape shape);
  // The same for a weight of several rows that is no factor of a product (biases of experts): it is kept as floats.
  WeightId Table(std::string name, Shape shape);
  // The outermost entries [first, first + count) of a tensor of shape `whole`: rows of a matrix that a file keeps together with
  // others (Q, K and V), or a part of their bias. Parts may overlap, and the whole may be a weight too.
  WeightId Rows(const std::string& tensor, Shape whole, size_t first, size_t count);
  // One row of a tensor [rows, columns] as a vector.
  WeightId Row(const std::string& tensor, Shape whole, size_t row);
  // Layer number of the nodes that follow, for messages and dumps; -1 for none.
  void SetLayer(int layer) { layer_ = layer; }
  // x is what the current layer leaves in the residual stream: who looks on at a step can see it (runtime/exec/step_tap.h).
  void EndLayer(ValueId x) { layer_ends_.push_back({layer_, x}); }

  ValueId Embed(WeightId table);  // [vocab, d] -> [tokens, d]
  // x + table[position] (+ bias); table: [positions, d], which is all the plan can run.
  ValueId AddPositions(ValueId x, WeightId table, WeightId bias = kNoWeight);
  ValueId Norm(ValueId x, const NormSpec& spec);
  ValueId RmsNorm(ValueId x, WeightId weight, float eps) {
    return Norm(x, {.kind = NormKind::kRms, .eps = eps, .weight = weight});
  }
  ValueId Linear(ValueId x, WeightId matrix, WeightId bias = kNoWeight);  // x W^T + b
  // q [tokens, heads * key_dim], k [tokens, kv_heads * key_dim], v [tokens, kv_heads * value_dim] -> [tokens, heads * value_dim].
  // Head norms, RoPE and the cache write are part of the op: keys enter the cache rotated. They happen in place, so q and k may
  // have no other reader; but k and v may be one value (gemma 4), of which v is what it was before k's norm.
  ValueId Attention(ValueId q, ValueId k, ValueId v, const AttentionSpec& spec);
  // The same over the keys and values that the attention of an earlier layer (SetLayer) has written, with equal KV heads, sizes,
  // window and chunk (gemma 4's last layers). What belongs to k and v in the spec is not read.
  ValueId SharedAttention(ValueId q, int kv_layer, AttentionSpec spec);
  ValueId Add(ValueId a, ValueId b);
  ValueId Gate(ValueId gate, ValueId up, ActivationKind kind);  // silu(gate) * up (Shazeer 2020, arXiv:2002.05202)
  ValueId Activation(ValueId x, ActivationKind kind);
  ValueId Scale(ValueId x, float factor);
  ValueId Scale(ValueId x, WeightId factor, float times);  // factor: [1]
  ValueId Clamp(ValueId x, float limit);                   // into [-limit, limit]
  ValueId Columns(ValueId x, size_t first, size_t count);  // columns [first, first + count)
  ValueId SigmoidGate(ValueId gate, ValueId x);  // gate: [tokens, 1]; x / (1 + exp(-gate)), each row by its gate
  // Mixture of experts (Shazeer et al. 2017, arXiv:1701.06538). logits: [tokens, experts] of the router. A row's output is the sum
  // over its chosen experts e, by ascending number, of weight * (down_e (gate(gate_e x + b, up_e x + b)) + b).
  ValueId Experts(ValueId x, ValueId logits, const ExpertWeights& weights, const ExpertsSpec& spec);
  // Recurrent layers. What they remember of a sequence has a constant size (Plan::state_bytes) and is no part of the cache.
  // Every channel by itself over the last `width` tokens, weight: a Table [channels, width] whose last column meets the token
  // itself, bias [channels]; then silu if wanted.
  ValueId ShortConv(ValueId x, WeightId weight, WeightId bias, bool silu);
  // q and k hold key_heads of key_dim, v value_heads of value_dim -> [tokens, value_heads * value_dim]. All three may be one value.
  ValueId LinearAttention(ValueId q, ValueId k, ValueId v, const RecurrentSpec& spec);
  // decay: the logarithm, at most 0, and beta: [tokens, value_heads] each.
  ValueId GatedDelta(ValueId q, ValueId k, ValueId v, ValueId decay, ValueId beta, const RecurrentSpec& spec);
  ValueId Decay(ValueId alpha, WeightId rate, WeightId bias);  // rate * log(1 + exp(alpha + bias)), weights [width]
  ValueId Sigmoid(ValueId x);
  // q [tokens, heads * dim], k [tokens, kv_heads * dim] -> [tokens, heads * keys]: column j of a head is q . k_j, k_j that of
  // token j of the sequence, and -inf where there is no such token. With w [dim] it is w . tanh(q + k_j) (Bahdanau, Cho & Bengio
  // 2014, arXiv:1409.0473). A mask is AddPositions with a table of zeros and -inf; a scale is Scale.
  ValueId PairScores(ValueId q, ValueId k, const PairSpec& spec, WeightId w = kNoWeight);
  // Of each of `parts` equal parts of a row; a part of nothing but -inf gives zeros. sinks [parts]: one more score of each part, which
  // takes its share and has no column (gpt-oss).
  ValueId Softmax(ValueId x, size_t parts = 1, WeightId sinks = kNoWeight);
  // weights [tokens, heads * keys], v [tokens, kv_heads * dim] -> [tokens, heads * dim]: each row's sum of w_j v_j over the tokens
  // of the sequence.
  ValueId WeightedSum(ValueId weights, ValueId v, const PairSpec& spec);
  // x is the output, of a model that makes embeddings of texts. Ends the graph.
  void Hidden(ValueId x, Pooling pooling);
  // head: [vocab, d], bias: [vocab]. softcap: logits become softcap * tanh(logits / softcap); 0: off. Ends the graph.
  void Logits(ValueId x, WeightId head, WeightId bias = kNoWeight, float softcap = 0,
              Pooling pooling = Pooling::kUnknown);

  // OK when every rule held and the graph ends in Logits; else the first fault, naming op, layer and weight.
  Status Finish() const;

  const std::vector<Value>& values() const { return values_; }
  const std::vector<WeightSpec>& weights() const { return weights_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<LayerEnd>& layer_ends() const { return layer_ends_; }
  // One node a line: "%3 = linear %2 blk.0.attn_q.weight [96, 72] -> 96  (layer 0)".
  std::string Dump() const;

 private:
  bool Ends() const { return !nodes_.empty() && (nodes_.back().op == Op::kLogits || nodes_.back().op == Op::kHidden); }
  WeightId Declare(WeightSpec spec);
  ValueId Append(Op op, std::vector<ValueId> inputs, std::vector<WeightId> weights, Attributes attributes);
  std::vector<Value> values_;
  std::vector<WeightSpec> weights_;
  std::vector<Node> nodes_;
  std::vector<LayerEnd> layer_ends_;
  int layer_ = -1;
  Status status_;
};

}  // namespace moonlit
