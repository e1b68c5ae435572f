// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph/graph.h"

#include <algorithm>
#include <cmath>

#include "runtime/graph/shape_rules.h"

namespace moonlit {
namespace {

struct OpTraits {
  const char* name;
  size_t inputs, fewest_weights, most_weights;
  Result<size_t> (*rule)(const Graph&, const Node&);
};

constexpr OpTraits kOps[] = {
#define MOONLIT_OP(enumerator, name, inputs, fewest, most, attributes, rule) {name, inputs, fewest, most, rule},
#include "runtime/graph/ops.inc"
#undef MOONLIT_OP
};

const OpTraits& TraitsOf(Op op) { return kOps[static_cast<size_t>(op)]; }

std::string LayerName(int layer) { return layer < 0 ? "outside the layers" : "layer " + std::to_string(layer); }

bool IdsExist(const Graph& graph, const Node& node) {
  const auto value_exists = [&](ValueId id) { return id < graph.values().size(); };
  const auto weight_exists = [&](WeightId id) { return id < graph.weights().size(); };
  return std::all_of(node.inputs.begin(), node.inputs.end(), value_exists) &&
         std::all_of(node.weights.begin(), node.weights.end(), weight_exists);
}

std::vector<WeightId> WithOptional(std::vector<WeightId> weights, std::initializer_list<WeightId> optional) {
  for (WeightId weight : optional) {
    if (weight != kNoWeight) weights.push_back(weight);
  }
  return weights;
}

}  // namespace

float AlibiSlope(float max_bias, size_t heads, size_t head) {
  size_t n = 1;
  while (2 * n <= heads) n *= 2;
  const double step = double{max_bias} / static_cast<double>(n);
  const double steps = head < n ? static_cast<double>(head + 1) : static_cast<double>(head - n) + 0.5;
  return static_cast<float>(std::exp2(-step * steps));
}

const char* OpName(Op op) { return TraitsOf(op).name; }

WeightId Graph::Weight(std::string name, Shape shape) { return Declare({name, shape, shape.rank() < 2, name, shape}); }

WeightId Graph::Table(std::string name, Shape shape) { return Declare({name, shape, true, name, shape}); }

WeightId Graph::Rows(const std::string& tensor, Shape whole, size_t first, size_t count) {
  Shape part;
  for (size_t i = 0; i < whole.rank(); ++i) part.Append(i == 0 ? count : whole[i]);
  const bool inside = whole.rank() > 0 && whole.rank() < 3 && first <= whole[0] && count <= whole[0] - first;
  if (!inside && status_.ok()) {
    status_ = Errorf(Code::kInternal, "weight %s: rows %zu to %zu of %s are wanted", tensor.c_str(), first,
                     first + count, whole.ToString().c_str());
  }
  const std::string range = "[" + std::to_string(first) + ":" + std::to_string(first + count) + "]";
  return Declare({tensor + range, part, part.rank() < 2, tensor, whole, first});
}

WeightId Graph::Row(const std::string& tensor, Shape whole, size_t row) {
  const bool inside = whole.rank() == 2 && row < whole[0];
  if (!inside && status_.ok()) {
    status_ =
        Errorf(Code::kInternal, "weight %s: row %zu of %s is wanted", tensor.c_str(), row, whole.ToString().c_str());
  }
  if (!inside) return kNoWeight;
  const Shape part = {whole[1]};
  return Declare({tensor + "[" + std::to_string(row) + "]", part, true, tensor, whole, row});
}

WeightId Graph::Declare(WeightSpec spec) {
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i].name != spec.name) continue;
    if (!(weights_[i].shape == spec.shape && weights_[i].is_table == spec.is_table) && status_.ok()) {
      status_ = Errorf(Code::kCorrupt, "weight %s is wanted as %s and as %s", spec.name.c_str(),
                       weights_[i].shape.ToString().c_str(), spec.shape.ToString().c_str());
    }
    return static_cast<WeightId>(i);
  }
  weights_.push_back(std::move(spec));
  return static_cast<WeightId>(weights_.size() - 1);
}

ValueId Graph::Append(Op op, std::vector<ValueId> inputs, std::vector<WeightId> weights, Attributes attributes) {
  const ValueId output = static_cast<ValueId>(values_.size());
  Node node{op, layer_, std::move(inputs), std::move(weights), output, std::move(attributes)};
  size_t width = 0;
  if (status_.ok()) {
    const OpTraits& traits = TraitsOf(op);
    const std::string where = std::string(traits.name) + " (" + LayerName(layer_) + ")";
    if (node.inputs.size() != traits.inputs || node.weights.size() < traits.fewest_weights ||
        node.weights.size() > traits.most_weights || !IdsExist(*this, node)) {
      status_ = Errorf(Code::kInternal, "%s: the model file passes values or weights that do not exist", where.c_str());
    } else if (Ends()) {
      status_ = Errorf(Code::kInternal, "%s: comes after the outputs", where.c_str());
    } else if (Result<size_t> result = traits.rule(*this, node); result.ok()) {
      width = result.value();
    } else {
      status_ = result.status().WithContext(where);
    }
  }
  nodes_.push_back(std::move(node));
  values_.push_back({width, static_cast<uint32_t>(nodes_.size() - 1)});
  return output;
}

ValueId Graph::Embed(WeightId table) { return Append(Op::kEmbed, {}, {table}, EmbedAttributes{}); }

ValueId Graph::AddPositions(ValueId x, WeightId table, WeightId bias) {
  return Append(Op::kAddPositions, {x}, WithOptional({table}, {bias}), AddPositionsAttributes{});
}

ValueId Graph::Norm(ValueId x, const NormSpec& spec) {
  return Append(Op::kNorm, {x}, WithOptional({}, {spec.weight, spec.bias}), spec);
}

ValueId Graph::Linear(ValueId x, WeightId matrix, WeightId bias) {
  return Append(Op::kLinear, {x}, WithOptional({matrix}, {bias}), LinearAttributes{});
}

ValueId Graph::Attention(ValueId q, ValueId k, ValueId v, const AttentionSpec& spec) {
  return Append(Op::kAttention, {q, k, v}, {}, spec);
}

ValueId Graph::SharedAttention(ValueId q, int kv_layer, AttentionSpec spec) {
  spec.kv_layer = kv_layer;
  return Append(Op::kSharedAttention, {q}, {}, spec);
}

ValueId Graph::Add(ValueId a, ValueId b) { return Append(Op::kAdd, {a, b}, {}, AddAttributes{}); }

ValueId Graph::Gate(ValueId gate, ValueId up, ActivationKind kind) {
  return Append(Op::kGate, {gate, up}, {}, GateAttributes{kind});
}

ValueId Graph::Activation(ValueId x, ActivationKind kind) {
  return Append(Op::kActivation, {x}, {}, ActivationAttributes{kind});
}

ValueId Graph::Scale(ValueId x, float factor) { return Append(Op::kScale, {x}, {}, ScaleAttributes{factor}); }

ValueId Graph::Scale(ValueId x, WeightId factor, float times) {
  return Append(Op::kScale, {x}, {factor}, ScaleAttributes{times});
}

ValueId Graph::Clamp(ValueId x, float limit) { return Append(Op::kClamp, {x}, {}, ClampAttributes{limit}); }

ValueId Graph::Columns(ValueId x, size_t first, size_t count) {
  return Append(Op::kColumns, {x}, {}, ColumnsAttributes{first, count});
}

ValueId Graph::SigmoidGate(ValueId gate, ValueId x) {
  return Append(Op::kSigmoidGate, {gate, x}, {}, SigmoidGateAttributes{});
}

ValueId Graph::Experts(ValueId x, ValueId logits, const ExpertWeights& weights, const ExpertsSpec& spec) {
  return Append(
      Op::kExperts, {x, logits},
      WithOptional({weights.gate, weights.up, weights.down}, {weights.gate_bias, weights.up_bias, weights.down_bias}),
      spec);
}

ValueId Graph::ShortConv(ValueId x, WeightId weight, WeightId bias, bool silu) {
  return Append(Op::kShortConv, {x}, WithOptional({weight}, {bias}), ShortConvAttributes{silu});
}

ValueId Graph::LinearAttention(ValueId q, ValueId k, ValueId v, const RecurrentSpec& spec) {
  return Append(Op::kLinearAttention, {q, k, v}, {}, spec);
}

ValueId Graph::GatedDelta(ValueId q, ValueId k, ValueId v, ValueId decay, ValueId beta, const RecurrentSpec& spec) {
  return Append(Op::kGatedDelta, {q, k, v, decay, beta}, {}, spec);
}

ValueId Graph::Decay(ValueId alpha, WeightId rate, WeightId bias) {
  return Append(Op::kDecay, {alpha}, {rate, bias}, DecayAttributes{});
}

ValueId Graph::Sigmoid(ValueId x) { return Append(Op::kSigmoid, {x}, {}, SigmoidAttributes{}); }

ValueId Graph::PairScores(ValueId q, ValueId k, const PairSpec& spec, WeightId w) {
  return Append(Op::kPairScores, {q, k}, WithOptional({}, {w}), spec);
}

ValueId Graph::Softmax(ValueId x, size_t parts, WeightId sinks) {
  return Append(Op::kSoftmax, {x}, WithOptional({}, {sinks}), SoftmaxAttributes{parts});
}

ValueId Graph::WeightedSum(ValueId weights, ValueId v, const PairSpec& spec) {
  return Append(Op::kWeightedSum, {weights, v}, {}, spec);
}
void Graph::Hidden(ValueId x, Pooling pooling) { Append(Op::kHidden, {x}, {}, HiddenAttributes{pooling}); }

void Graph::Logits(ValueId x, WeightId head, WeightId bias, float softcap, Pooling pooling) {
  Append(Op::kLogits, {x}, WithOptional({head}, {bias}), LogitsAttributes{softcap, pooling});
}

Status Graph::Finish() const {
  MOONLIT_RETURN_IF_ERROR(status_);
  if (!Ends()) return Errorf(Code::kInternal, "the graph does not end in logits or hidden states");
  return Status();
}

std::string Graph::Dump() const {
  std::string text;
  for (const Node& node : nodes_) {
    text += "%" + std::to_string(node.output) + " = " + OpName(node.op);
    for (ValueId input : node.inputs) text += " %" + std::to_string(input);
    for (WeightId weight : node.weights) {
      text += " ";
      text += weight < weights_.size() ? weights_[weight].name + " " + weights_[weight].shape.ToString() : "?";
    }
    text += " -> " + std::to_string(values_[node.output].width);
    if (node.layer >= 0) text += "  (layer " + std::to_string(node.layer) + ")";
    text += "\n";
  }
  return text;
}

}  // namespace moonlit
