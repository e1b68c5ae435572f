// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph/fusion.h"

#include <algorithm>
#include <numeric>

namespace moonlit {
namespace {

constexpr const char* kStageNames[] = {"embed",         "add_positions", "activate",
                                       "norm",          "products",      "gated_products",
                                       "gate",          "activation",    "add",
                                       "scale",         "clamp",         "columns",
                                       "sigmoid_gate",  "route",         "gather_experts",
                                       "gated_experts", "down_experts",  "qkv_post",
                                       "attention",     "short_conv",    "linear_attention",
                                       "gated_delta",   "decay",         "sigmoid",
                                       "pair_scores",   "softmax",       "weighted_sum",
                                       "hidden",        "head"};

class Fuser {
 public:
  explicit Fuser(const Graph& graph)
      : graph_(graph), done_(graph.nodes().size(), false), activated_(graph.values().size()) {
    users_.resize(graph.values().size());
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      for (ValueId input : graph.nodes()[i].inputs) users_[input].push_back(static_cast<uint32_t>(i));
    }
    fused_.storage.resize(graph.values().size());
    std::iota(fused_.storage.begin(), fused_.storage.end(), ValueId{0});
  }

  FusedGraph Run() {
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (!done_[i]) EmitNode(static_cast<uint32_t>(i));
    }
    ShareResidualStorage();
    return std::move(fused_);
  }

 private:
  const Node& node(uint32_t i) const { return graph_.nodes()[i]; }
  const Node& Producer(ValueId v) const { return node(graph_.values()[v].producer); }

  FusedStage& Emit(StageKind kind, const Node& n) {
    fused_.stages.push_back({});
    FusedStage& stage = fused_.stages.back();
    stage.kind = kind;
    stage.layer = n.layer;
    if (!n.inputs.empty()) stage.input = n.inputs[0];
    if (n.inputs.size() > 1) stage.input_b = n.inputs[1];
    if (n.inputs.size() > 2) stage.input_c = n.inputs[2];
    if (n.inputs.size() > 3) stage.input_d = n.inputs[3];
    if (n.inputs.size() > 4) stage.input_e = n.inputs[4];
    stage.output = n.output;
    return stage;
  }

  bool OnlyUsedBy(ValueId v, Op op) const {
    return !users_[v].empty() &&
           std::all_of(users_[v].begin(), users_[v].end(), [&](uint32_t user) { return node(user).op == op; });
  }

  // As x of a Linear or of experts, not as logits.
  bool OnlyUsedByProducts(ValueId v) const {
    return !users_[v].empty() && std::all_of(users_[v].begin(), users_[v].end(), [&](uint32_t user) {
      const Node& n = node(user);
      return n.op == Op::kLinear || (n.op == Op::kExperts && n.inputs[0] == v && n.inputs[1] != v);
    });
  }

  void EmitPositions(const Node& n) {
    Emit(StageKind::kAddPositions, n).parts.push_back({n.weights[0], n.weights.size() > 1 ? n.weights[1] : kNoWeight});
  }

  void EmitNode(uint32_t i) {
    const Node& n = node(i);
    done_[i] = true;
    switch (n.op) {
      case Op::kEmbed:
        Emit(StageKind::kEmbed, n).parts.push_back({n.weights[0], kNoWeight, n.output});
        break;
      case Op::kAddPositions:
        EmitPositions(n);
        break;
      case Op::kNorm:
        EmitNorm(n);
        break;
      case Op::kLinear:
        EmitProducts(i);
        break;
      case Op::kAttention:
      case Op::kSharedAttention:
        EmitAttention(n);
        break;
      case Op::kAdd:
      case Op::kGate:
      case Op::kActivation:
      case Op::kScale:
      case Op::kClamp:
      case Op::kSigmoidGate:
        EmitUnfused(n);
        break;
      case Op::kColumns:
        Emit(StageKind::kColumns, n).first_column = std::get<ColumnsAttributes>(n.attributes).first;
        break;
      case Op::kExperts:
        EmitExperts(i);
        break;
      case Op::kShortConv:
      case Op::kLinearAttention:
      case Op::kGatedDelta:
        EmitRecurrent(n);
        break;
      case Op::kDecay:
        Emit(StageKind::kDecay, n).parts.push_back({n.weights[0], n.weights[1]});
        break;
      case Op::kSigmoid:
        Emit(StageKind::kSigmoid, n);
        break;
      case Op::kPairScores:
      case Op::kSoftmax:
      case Op::kWeightedSum:
        EmitPairs(n);
        break;
      case Op::kHidden:
        Emit(StageKind::kHidden, n).output = kNoValue;
        break;
      case Op::kLogits:
        EmitHead(n);
        break;
    }
  }

  // A norm waits for its products or head, which know the form they want; anything else gets plain floats.
  void EmitNorm(const Node& n) {
    if (OnlyUsedByProducts(n.output) || OnlyUsedBy(n.output, Op::kLogits)) return;
    Emit(StageKind::kNorm, n).norm = std::get<NormSpec>(n.attributes);
  }

  // What no product has taken as an epilogue.
  void EmitUnfused(const Node& n) {
    if (n.op == Op::kAdd || n.op == Op::kSigmoidGate) {
      Emit(n.op == Op::kAdd ? StageKind::kAdd : StageKind::kSigmoidGate, n);
    } else if (n.op == Op::kScale) {
      EmitScale(n);
    } else if (n.op == Op::kClamp) {
      Emit(StageKind::kClamp, n).factor = std::get<ClampAttributes>(n.attributes).limit;
    } else if (n.op == Op::kGate) {
      Emit(StageKind::kGate, n).gate = std::get<GateAttributes>(n.attributes).kind;
    } else {
      Emit(StageKind::kActivation, n).gate = std::get<ActivationAttributes>(n.attributes).kind;
    }
  }

  void EmitScale(const Node& n) {
    FusedStage& stage = Emit(StageKind::kScale, n);
    stage.factor = std::get<ScaleAttributes>(n.attributes).factor;
    if (!n.weights.empty()) stage.factor_weight = n.weights[0];
  }

  void EmitActivation(ValueId x, int layer) {
    if (activated_[x]) return;
    activated_[x] = true;
    const Node& producer = Producer(x);
    FusedStage stage;
    stage.kind = StageKind::kActivate;
    stage.layer = layer;
    stage.input = stage.output = x;
    if (producer.op == Op::kNorm && OnlyUsedByProducts(x)) {
      stage.input = producer.inputs[0];
      stage.norm = std::get<NormSpec>(producer.attributes);
    }
    fused_.stages.push_back(std::move(stage));
  }

  // The Gate that joins exactly these two products of x, or the Activation that alone reads this one; or null.
  const Node* PairedGate(uint32_t i) const {
    const Node& n = node(i);
    if (users_[n.output].size() != 1) return nullptr;
    const Node& gate = node(users_[n.output][0]);
    if (gate.op == Op::kActivation) return &gate;
    if (gate.op != Op::kGate || gate.inputs[0] == gate.inputs[1]) return nullptr;
    for (ValueId side : gate.inputs) {
      const Node& producer = Producer(side);
      if (producer.op != Op::kLinear || producer.inputs[0] != n.inputs[0] || users_[side].size() != 1) return nullptr;
    }
    return &gate;
  }

  void EmitGated(const Node& n, const Node& gate) {
    FusedStage& stage = Emit(StageKind::kGatedProducts, n);
    stage.output = gate.output;
    stage.gate = gate.op == Op::kGate ? std::get<GateAttributes>(gate.attributes).kind
                                      : std::get<ActivationAttributes>(gate.attributes).kind;
    for (ValueId side : gate.inputs) {
      const Node& product = Producer(side);
      stage.parts.push_back({product.weights[0], product.weights.size() > 1 ? product.weights[1] : kNoWeight});
      done_[graph_.values()[side].producer] = true;
    }
    done_[graph_.values()[gate.output].producer] = true;
  }

  void EmitProducts(uint32_t i) {
    const Node& n = node(i);
    EmitActivation(n.inputs[0], n.layer);
    if (const Node* gate = PairedGate(i)) return EmitGated(n, *gate);
    FusedStage& stage = Emit(StageKind::kProducts, n);
    stage.output = kNoValue;
    for (uint32_t user : users_[n.inputs[0]]) {
      if (node(user).op != Op::kLinear || (user != i && (done_[user] || PairedGate(user) != nullptr))) continue;
      done_[user] = true;
      stage.parts.push_back(Part(user));
    }
  }

  ProductPart Part(uint32_t i) {
    const Node& n = node(i);
    ProductPart part{n.weights[0], n.weights.size() > 1 ? n.weights[1] : kNoWeight, n.output};
    TakeAddend(i, part);
    return part;
  }

  // The Add that is the only reader of node i's output becomes a part of its product.
  void TakeAddend(uint32_t i, ProductPart& part) {
    const ValueId output = node(i).output;
    if (users_[output].size() != 1) return;
    const uint32_t user = users_[output][0];
    const Node& add = node(user);
    if (add.op != Op::kAdd || add.inputs[0] == add.inputs[1]) return;
    const ValueId other = add.inputs[0] == output ? add.inputs[1] : add.inputs[0];
    // The other side must be there already, as plain floats, and not itself be a product that waits for this Add.
    if (graph_.values()[other].producer >= i || !IsEmitted(other)) return;
    part.addend = other;
    part.output = add.output;
    done_[user] = true;
  }

  FusedStage& EmitExpertsStage(StageKind kind, const Node& n, ValueId input) {
    FusedStage& stage = Emit(kind, n);
    stage.input = input;
    stage.input_b = stage.output = kNoValue;
    stage.experts = std::get<ExpertsSpec>(n.attributes);
    stage.gate = stage.experts.gate;
    stage.experts_index = fused_.experts_nodes;
    return stage;
  }

  void EmitExperts(uint32_t i) {
    const Node& n = node(i);
    const auto bias = [&](size_t part) { return n.weights.size() > 3 ? n.weights[3 + part] : kNoWeight; };
    EmitActivation(n.inputs[0], n.layer);
    EmitExpertsStage(StageKind::kRoute, n, n.inputs[1]);
    EmitExpertsStage(StageKind::kGatherExperts, n, n.inputs[0]);
    EmitExpertsStage(StageKind::kGatedExperts, n, n.inputs[0]).parts = {{n.weights[0], bias(0)},
                                                                        {n.weights[1], bias(1)}};
    ProductPart down{n.weights[2], bias(2), n.output};
    TakeAddend(i, down);
    EmitExpertsStage(StageKind::kDownExperts, n, kNoValue).parts = {down};
    ++fused_.experts_nodes;
  }

  // Whether an emitted stage writes v as plain floats.
  bool IsEmitted(ValueId v) const {
    for (const FusedStage& stage : fused_.stages) {
      if (stage.kind == StageKind::kActivate || stage.kind == StageKind::kQkvPost) continue;
      if (stage.output == v) return true;
      for (const ProductPart& part : stage.parts) {
        if (part.output == v) return true;
      }
    }
    return false;
  }

  void EmitAttention(const Node& n) {
    const AttentionSpec& spec = std::get<AttentionSpec>(n.attributes);
    const uint32_t index = fused_.attention_nodes++;
    kv_layers_.push_back(n.op == Op::kAttention ? n.layer : -1);
    uint32_t kv_index = index;
    for (uint32_t i = 0; n.op == Op::kSharedAttention && i < index && kv_index == index; ++i) {
      if (kv_layers_[i] == spec.kv_layer) kv_index = i;
    }
    for (StageKind kind : {StageKind::kQkvPost, StageKind::kAttention}) {
      FusedStage& stage = Emit(kind, n);
      stage.attention = spec;
      stage.attention_index = index;
      stage.kv_index = kv_index;
    }
    fused_.stages[fused_.stages.size() - 2].output = kNoValue;
  }

  void EmitRecurrent(const Node& n) {
    if (n.op == Op::kShortConv) {
      FusedStage& stage = Emit(StageKind::kShortConv, n);
      stage.parts.push_back({n.weights[0], n.weights.size() > 1 ? n.weights[1] : kNoWeight});
      stage.silu = std::get<ShortConvAttributes>(n.attributes).silu;
    } else {
      const bool delta = n.op == Op::kGatedDelta;
      Emit(delta ? StageKind::kGatedDelta : StageKind::kLinearAttention, n).recurrent =
          std::get<RecurrentSpec>(n.attributes);
    }
    fused_.stages.back().state_index = fused_.state_nodes++;
  }

  void EmitPairs(const Node& n) {
    if (n.op == Op::kSoftmax) {
      FusedStage& stage = Emit(StageKind::kSoftmax, n);
      stage.pairs.heads = std::get<SoftmaxAttributes>(n.attributes).parts;
      if (!n.weights.empty()) stage.parts.push_back({n.weights[0]});
      return;
    }
    FusedStage& stage = Emit(n.op == Op::kPairScores ? StageKind::kPairScores : StageKind::kWeightedSum, n);
    stage.pairs = std::get<PairSpec>(n.attributes);
    if (!n.weights.empty()) stage.parts.push_back({n.weights[0]});
  }

  void EmitHead(const Node& n) {
    FusedStage& stage = Emit(StageKind::kHead, n);
    stage.output = kNoValue;
    stage.parts.push_back({n.weights[0], n.weights.size() > 1 ? n.weights[1] : kNoWeight});
    stage.factor = std::get<LogitsAttributes>(n.attributes).softcap;
    const Node& producer = Producer(n.inputs[0]);
    if (producer.op != Op::kNorm || !OnlyUsedBy(n.inputs[0], Op::kLogits)) return;
    stage.input = producer.inputs[0];
    stage.norm = std::get<NormSpec>(producer.attributes);
  }

  // Last stage that reads v's floats.
  size_t LastReader(ValueId v) const {
    size_t last = 0;
    for (size_t s = 0; s < fused_.stages.size(); ++s) {
      const FusedStage& stage = fused_.stages[s];
      bool reads =
          stage.input == v || stage.input_b == v || stage.input_c == v || stage.input_d == v || stage.input_e == v;
      for (const ProductPart& part : stage.parts) reads |= part.addend == v;
      if (reads) last = s;
    }
    return last;
  }

  // A product kernel may write over its addend, element by element; so the sum lives where the addend lived if this was the
  // addend's last use. One part a stage only: several parts must not write over a value that another one still adds. And not
  // over the product's own input, which may be read in the float form that it shares with the addend.
  void ShareResidualStorage() {
    for (size_t s = 0; s < fused_.stages.size(); ++s) {
      FusedStage& stage = fused_.stages[s];
      const bool product = stage.kind == StageKind::kProducts || stage.kind == StageKind::kDownExperts;
      if (!product || stage.parts.size() != 1) continue;
      const ProductPart& part = stage.parts[0];
      if (part.addend == kNoValue || LastReader(part.addend) != s) continue;
      const ValueId storage = fused_.storage[part.addend];
      const bool is_input = stage.input != kNoValue && fused_.storage[stage.input] == storage;
      if (!is_input) fused_.storage[part.output] = storage;
    }
  }

  const Graph& graph_;
  FusedGraph fused_;
  std::vector<std::vector<uint32_t>> users_;  // [values] -> nodes
  std::vector<bool> done_;                    // [nodes]
  std::vector<int> kv_layers_;                // [attention nodes so far] layer whose keys it writes, -1: none
  std::vector<bool> activated_;               // [values]
};

void AppendValue(std::string& text, const char* before, ValueId v) {
  if (v != kNoValue) text += before + ("%" + std::to_string(v));
}

// Whether the stage writes what later steps read or reads other rows than its own, so that every row must be there.
bool ChangesSequence(const FusedStage& stage) {
  const StageKind kind = stage.kind;
  const bool writes_cache = kind == StageKind::kQkvPost && stage.input_b != kNoValue;
  return writes_cache || kind == StageKind::kShortConv || kind == StageKind::kLinearAttention ||
         kind == StageKind::kGatedDelta || kind == StageKind::kPairScores || kind == StageKind::kWeightedSum;
}

}  // namespace

const char* StageKindName(StageKind kind) { return kStageNames[static_cast<size_t>(kind)]; }

FusedGraph Fuse(const Graph& graph) {
  FusedGraph fused = Fuser(graph).Run();
  for (auto stage = fused.stages.rbegin(); stage != fused.stages.rend() && !ChangesSequence(*stage); ++stage) {
    stage->tail = fused.attention_nodes + fused.state_nodes != 0;
  }
  return fused;
}

std::string FusedGraph::Dump(const Graph& graph) const {
  std::string text;
  for (const FusedStage& stage : stages) {
    text += StageKindName(stage.kind);
    AppendValue(text, " ", stage.input);
    AppendValue(text, " ", stage.input_b);
    AppendValue(text, " ", stage.input_c);
    AppendValue(text, " ", stage.input_d);
    AppendValue(text, " ", stage.input_e);
    if (stage.norm) {
      text += " norm ";
      text += stage.norm->weight == kNoWeight ? "(no weight)" : graph.weights()[stage.norm->weight].name;
    }
    for (const ProductPart& part : stage.parts) {
      text += " [" + graph.weights()[part.weight].name;
      if (part.bias != kNoWeight) text += " + " + graph.weights()[part.bias].name;
      AppendValue(text, " + ", part.addend);
      AppendValue(text, " -> ", part.output);
      if (part.output != kNoValue && storage[part.output] != part.output)
        AppendValue(text, " in ", storage[part.output]);
      text += "]";
    }
    if (stage.kind != StageKind::kEmbed) AppendValue(text, " -> ", stage.output);
    text += "\n";
  }
  return text;
}

}  // namespace moonlit
