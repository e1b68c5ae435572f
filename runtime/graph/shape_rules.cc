// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph/shape_rules.h"

namespace moonlit {
namespace {

const WeightSpec& Weight(const Graph& graph, const Node& node, size_t i) { return graph.weights()[node.weights[i]]; }
size_t Width(const Graph& graph, const Node& node, size_t i) { return graph.values()[node.inputs[i]].width; }

Status CheckRank(const WeightSpec& weight, size_t rank) {
  if (weight.shape.rank() == rank && weight.shape.elements() > 0) return Status();
  return Errorf(Code::kCorrupt, "weight %s: expected %zu dimensions of at least 1, it has %s", weight.name.c_str(),
                rank, weight.shape.ToString().c_str());
}

Status CheckVector(const WeightSpec& weight, size_t size) {
  MOONLIT_RETURN_IF_ERROR(CheckRank(weight, 1));
  if (weight.shape[0] == size) return Status();
  return Errorf(Code::kCorrupt, "weight %s: expected [%zu], it has %s", weight.name.c_str(), size,
                weight.shape.ToString().c_str());
}

Result<size_t> MatrixOutputs(const WeightSpec& weight, size_t inputs) {
  MOONLIT_RETURN_IF_ERROR(CheckRank(weight, 2));
  if (weight.shape[1] == inputs) return weight.shape[0];
  return Errorf(Code::kCorrupt, "weight %s: expected %zu inputs, it has shape %s", weight.name.c_str(), inputs,
                weight.shape.ToString().c_str());
}

Status CheckOptionalVector(const Graph& graph, WeightId weight, size_t size) {
  if (weight == kNoWeight) return Status();
  if (weight >= graph.weights().size()) return Errorf(Code::kInternal, "weight %u does not exist", weight);
  return CheckVector(graph.weights()[weight], size);
}

Status CheckRope(const Graph& graph, const AttentionSpec& spec) {
  if (spec.rope.pairs == RopePairs::kNone) return Status();
  const size_t dims = spec.rope.dims;
  if (dims == 0 || dims % 2 != 0 || dims > spec.key_dim) {
    return Errorf(Code::kCorrupt,
                  "RoPE over %zu elements of a head of %zu: expected an even number up to the head's size", dims,
                  spec.key_dim);
  }
  return CheckOptionalVector(graph, spec.rope.divisors, dims / 2);
}

// [experts, outputs, inputs]
Status CheckExpertMatrix(const WeightSpec& weight, size_t experts, size_t inputs) {
  MOONLIT_RETURN_IF_ERROR(CheckRank(weight, 3));
  if (weight.shape[0] == experts && weight.shape[2] == inputs) return Status();
  return Errorf(Code::kCorrupt, "weight %s: expected %zu experts of %zu inputs, it has shape %s", weight.name.c_str(),
                experts, inputs, weight.shape.ToString().c_str());
}

Status CheckExpertBias(const WeightSpec& weight, const WeightSpec& matrix) {
  const Shape expected{matrix.shape[0], matrix.shape[1]};
  if (weight.shape == expected && weight.is_table) return Status();
  return Errorf(Code::kCorrupt, "weight %s: expected a table %s, it has %s", weight.name.c_str(),
                expected.ToString().c_str(), weight.shape.ToString().c_str());
}

Status CheckRoute(const Graph& graph, const RouteSpec& route, size_t logits) {
  if (route.experts == 0 || route.experts > kMostExperts || route.used == 0 || route.used > route.experts) {
    return Errorf(Code::kCorrupt, "%zu of %zu experts are used: expected 1 up to all, and at most %zu experts",
                  route.used, route.experts, kMostExperts);
  }
  if (logits != route.experts) {
    return Errorf(Code::kCorrupt, "the router has %zu outputs: expected one for each of %zu experts", logits,
                  route.experts);
  }
  return CheckOptionalVector(graph, route.selection_bias, route.experts);
}

Status CheckWidth(const char* what, size_t found, size_t count, size_t dim) {
  if (found == count * dim) return Status();
  return Errorf(Code::kCorrupt, "%s are %zu wide: expected %zu heads of %zu", what, found, count, dim);
}

// Heads that begin at column `first` of a value that may hold more.
Status CheckColumns(const char* what, size_t width, size_t first, size_t count, size_t dim) {
  if (first <= width && count * dim <= width - first) return Status();
  return Errorf(Code::kCorrupt, "%s are %zu wide: expected %zu heads of %zu from column %zu on", what, width, count,
                dim, first);
}

Status CheckRecurrent(const Graph& graph, const Node& node, const RecurrentSpec& spec) {
  const auto is_size = [](size_t n, size_t most) { return n > 0 && n <= most; };
  constexpr size_t kMostHeads = size_t{1} << 16;
  if (!is_size(spec.key_heads, kMostHeads) || !is_size(spec.value_heads, kMostHeads) ||
      spec.value_heads % spec.key_heads != 0 || !is_size(spec.key_dim, kMostRecurrentDim) ||
      !is_size(spec.value_dim, kMostRecurrentDim)) {
    return Errorf(
        Code::kCorrupt,
        "%zu value heads of %zu over %zu key heads of %zu: expected a multiple, no zero, and heads of at most "
        "%zu",
        spec.value_heads, spec.value_dim, spec.key_heads, spec.key_dim, kMostRecurrentDim);
  }
  MOONLIT_RETURN_IF_ERROR(CheckColumns("queries", Width(graph, node, 0), spec.q_first, spec.key_heads, spec.key_dim));
  MOONLIT_RETURN_IF_ERROR(CheckColumns("keys", Width(graph, node, 1), spec.k_first, spec.key_heads, spec.key_dim));
  return CheckColumns("values", Width(graph, node, 2), spec.v_first, spec.value_heads, spec.value_dim);
}

// [dim], or a table of one norm a head, [heads, dim].
Status CheckHeadNorm(const Graph& graph, WeightId id, size_t heads, size_t dim) {
  if (id == kNoWeight || id >= graph.weights().size()) return CheckOptionalVector(graph, id, dim);
  const WeightSpec& weight = graph.weights()[id];
  if (weight.shape.rank() == 1) return CheckVector(weight, dim);
  if (weight.is_table && weight.shape == Shape{heads, dim}) return Status();
  return Errorf(Code::kCorrupt, "weight %s: expected [%zu] or a table [%zu, %zu], it has %s", weight.name.c_str(), dim,
                heads, dim, weight.shape.ToString().c_str());
}

bool IsCount(double x) { return x >= 0 && x < 1e6; }  // false for NaN

Status CheckMask(const AttentionSpec& spec) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  if (spec.window > kMost || spec.chunk > kMost || (spec.bidirectional && spec.chunk != 0)) {
    return Errorf(Code::kCorrupt,
                  "a window of %zu and chunks of %zu%s: expected up to 2^40, and no chunks in an encoder", spec.window,
                  spec.chunk, spec.bidirectional ? " of an encoder" : "");
  }
  if (IsCount(spec.softcap) && IsCount(spec.alibi_max_bias) && IsCount(spec.alibi_scale) &&
      IsCount(spec.temperature.scale))
    return Status();
  return Errorf(Code::kCorrupt,
                "a softcap of %g, an ALiBi bias of %g times %g, a temperature's scale of %g: expected 0 to 1e6",
                double{spec.softcap}, double{spec.alibi_max_bias}, double{spec.alibi_scale}, spec.temperature.scale);
}

// What does not depend on who writes the keys.
Status CheckAttention(const Graph& graph, const Node& node, const AttentionSpec& spec) {
  if (spec.heads == 0 || spec.kv_heads == 0 || spec.heads % spec.kv_heads != 0 || spec.key_dim == 0 ||
      spec.value_dim == 0) {
    return Errorf(Code::kCorrupt, "%zu heads over %zu KV heads of size %zu and %zu: expected a multiple, and no zero",
                  spec.heads, spec.kv_heads, spec.key_dim, spec.value_dim);
  }
  MOONLIT_RETURN_IF_ERROR(CheckWidth("queries", Width(graph, node, 0), spec.heads, spec.key_dim));
  MOONLIT_RETURN_IF_ERROR(CheckMask(spec));
  MOONLIT_RETURN_IF_ERROR(CheckHeadNorm(graph, spec.q_norm, spec.heads, spec.key_dim));
  MOONLIT_RETURN_IF_ERROR(CheckOptionalVector(graph, spec.sinks, spec.heads));
  return CheckRope(graph, spec);
}

Status CheckPairs(const PairSpec& spec) {
  const bool heads = spec.heads != 0 && spec.kv_heads != 0 && spec.heads % spec.kv_heads == 0;
  if (heads && spec.keys != 0 && spec.keys <= kMostPairs / spec.heads) return Status();
  return Errorf(Code::kCorrupt,
                "%zu heads over %zu KV heads and %zu keys: expected a multiple, no zero, and at most %zu scores a row",
                spec.heads, spec.kv_heads, spec.keys, kMostPairs);
}

}  // namespace

Result<size_t> EmbedShape(const Graph& graph, const Node& node) {
  const WeightSpec& table = Weight(graph, node, 0);
  MOONLIT_RETURN_IF_ERROR(CheckRank(table, 2));
  return table.shape[1];
}

Result<size_t> AddPositionsShape(const Graph& graph, const Node& node) {
  const size_t width = Width(graph, node, 0);
  const WeightSpec& table = Weight(graph, node, 0);
  if (table.shape.rank() != 2 || table.shape[0] == 0 || table.shape[1] != width || !table.is_table) {
    return Errorf(Code::kCorrupt, "weight %s: expected a table of positions of %zu values, it has %s",
                  table.name.c_str(), width, table.shape.ToString().c_str());
  }
  if (node.weights.size() > 1) MOONLIT_RETURN_IF_ERROR(CheckVector(Weight(graph, node, 1), width));
  return width;
}

Result<size_t> NormShape(const Graph& graph, const Node& node) {
  const NormSpec& spec = std::get<NormSpec>(node.attributes);
  const size_t width = Width(graph, node, 0);
  if (spec.heads == 0 || width % spec.heads != 0) {
    return Errorf(Code::kCorrupt, "%zu values in %zu equal parts: expected a divisor", width, spec.heads);
  }
  for (WeightId id : node.weights) {
    const WeightSpec& weight = graph.weights()[id];
    const size_t elements = weight.shape.elements();
    if (weight.is_table && (elements == width || elements == width / spec.heads)) continue;
    const std::string part = spec.heads == 1 ? "" : " or " + std::to_string(width / spec.heads);
    return Errorf(Code::kCorrupt, "weight %s: expected a table of %zu%s values, it has %s", weight.name.c_str(), width,
                  part.c_str(), weight.shape.ToString().c_str());
  }
  return width;
}

Result<size_t> LinearShape(const Graph& graph, const Node& node) {
  MOONLIT_ASSIGN_OR_RETURN(const size_t outputs, MatrixOutputs(Weight(graph, node, 0), Width(graph, node, 0)));
  if (node.weights.size() > 1) MOONLIT_RETURN_IF_ERROR(CheckVector(Weight(graph, node, 1), outputs));
  return outputs;
}

Result<size_t> AttentionShape(const Graph& graph, const Node& node) {
  const AttentionSpec& spec = std::get<AttentionSpec>(node.attributes);
  MOONLIT_RETURN_IF_ERROR(CheckAttention(graph, node, spec));
  MOONLIT_RETURN_IF_ERROR(CheckWidth("keys", Width(graph, node, 1), spec.kv_heads, spec.key_dim));
  MOONLIT_RETURN_IF_ERROR(CheckWidth("values", Width(graph, node, 2), spec.kv_heads, spec.value_dim));
  MOONLIT_RETURN_IF_ERROR(CheckHeadNorm(graph, spec.k_norm, spec.kv_heads, spec.key_dim));
  return spec.heads * spec.value_dim;
}

Result<size_t> SharedAttentionShape(const Graph& graph, const Node& node) {
  const AttentionSpec& spec = std::get<AttentionSpec>(node.attributes);
  MOONLIT_RETURN_IF_ERROR(CheckAttention(graph, node, spec));
  for (const Node& writer : graph.nodes()) {
    if (spec.kv_layer < 0 || writer.op != Op::kAttention || writer.layer != spec.kv_layer) continue;
    const AttentionSpec& wrote = std::get<AttentionSpec>(writer.attributes);
    if (wrote.kv_heads == spec.kv_heads && wrote.key_dim == spec.key_dim && wrote.value_dim == spec.value_dim &&
        wrote.window == spec.window && wrote.chunk == spec.chunk && wrote.bidirectional == spec.bidirectional) {
      return spec.heads * spec.value_dim;
    }
    return Errorf(Code::kCorrupt,
                  "the keys of layer %d are read as %zu heads of %zu and %zu with window %zu, chunk %zu: they were "
                  "written as %zu of %zu and %zu with %zu, %zu",
                  spec.kv_layer, spec.kv_heads, spec.key_dim, spec.value_dim, spec.window, spec.chunk, wrote.kv_heads,
                  wrote.key_dim, wrote.value_dim, wrote.window, wrote.chunk);
  }
  return Errorf(Code::kCorrupt, "the keys of layer %d are read: expected an earlier layer with attention of its own",
                spec.kv_layer);
}

Result<size_t> AddShape(const Graph& graph, const Node& node) {
  const size_t a = Width(graph, node, 0), b = Width(graph, node, 1);
  if (a == b) return a;
  return Errorf(Code::kCorrupt, "the two sides are %zu and %zu wide: expected equal widths", a, b);
}

Result<size_t> GateShape(const Graph& graph, const Node& node) { return AddShape(graph, node); }

Result<size_t> ActivationShape(const Graph& graph, const Node& node) { return Width(graph, node, 0); }

Result<size_t> ScaleShape(const Graph& graph, const Node& node) {
  if (!node.weights.empty()) MOONLIT_RETURN_IF_ERROR(CheckVector(Weight(graph, node, 0), 1));
  return Width(graph, node, 0);
}

Result<size_t> ClampShape(const Graph& graph, const Node& node) { return Width(graph, node, 0); }

Result<size_t> ColumnsShape(const Graph& graph, const Node& node) {
  const ColumnsAttributes& columns = std::get<ColumnsAttributes>(node.attributes);
  const size_t width = Width(graph, node, 0);
  if (columns.count > 0 && columns.first <= width && columns.count <= width - columns.first) return columns.count;
  return Errorf(Code::kCorrupt, "columns %zu to %zu of %zu are wanted", columns.first, columns.first + columns.count,
                width);
}

Result<size_t> SigmoidGateShape(const Graph& graph, const Node& node) {
  const size_t gate = Width(graph, node, 0);
  if (gate == 1) return Width(graph, node, 1);
  return Errorf(Code::kCorrupt, "the gate of a row is %zu wide: expected 1", gate);
}

Result<size_t> ExpertsShape(const Graph& graph, const Node& node) {
  const ExpertsSpec& spec = std::get<ExpertsSpec>(node.attributes);
  MOONLIT_RETURN_IF_ERROR(CheckRoute(graph, spec.route, Width(graph, node, 1)));
  const WeightSpec &gate = Weight(graph, node, 0), &up = Weight(graph, node, 1), &down = Weight(graph, node, 2);
  const size_t experts = spec.route.experts;
  MOONLIT_RETURN_IF_ERROR(CheckExpertMatrix(gate, experts, Width(graph, node, 0)));
  MOONLIT_RETURN_IF_ERROR(CheckExpertMatrix(up, experts, Width(graph, node, 0)));
  if (!(gate.shape == up.shape)) {
    return Errorf(Code::kCorrupt, "weights %s and %s: expected equal shapes, they have %s and %s", gate.name.c_str(),
                  up.name.c_str(), gate.shape.ToString().c_str(), up.shape.ToString().c_str());
  }
  MOONLIT_RETURN_IF_ERROR(CheckExpertMatrix(down, experts, up.shape[1]));
  if (node.weights.size() != 3 && node.weights.size() != 6) {
    return Errorf(Code::kInternal, "experts have biases of all three products or of none");
  }
  for (size_t i = 3; i < node.weights.size(); ++i) {
    MOONLIT_RETURN_IF_ERROR(CheckExpertBias(Weight(graph, node, i), Weight(graph, node, i - 3)));
  }
  return down.shape[1];
}

Result<size_t> ShortConvShape(const Graph& graph, const Node& node) {
  const size_t channels = Width(graph, node, 0);
  const WeightSpec& weight = Weight(graph, node, 0);
  MOONLIT_RETURN_IF_ERROR(CheckRank(weight, 2));
  if (weight.shape[0] != channels || weight.shape[1] > kMostShortConvWidth || !weight.is_table) {
    return Errorf(Code::kCorrupt, "weight %s: expected a table of %zu channels and at most %zu tokens, it has shape %s",
                  weight.name.c_str(), channels, kMostShortConvWidth, weight.shape.ToString().c_str());
  }
  if (node.weights.size() > 1) MOONLIT_RETURN_IF_ERROR(CheckVector(Weight(graph, node, 1), channels));
  return channels;
}

Result<size_t> LinearAttentionShape(const Graph& graph, const Node& node) {
  const RecurrentSpec& spec = std::get<RecurrentSpec>(node.attributes);
  MOONLIT_RETURN_IF_ERROR(CheckRecurrent(graph, node, spec));
  return spec.value_heads * spec.value_dim;
}

Result<size_t> GatedDeltaShape(const Graph& graph, const Node& node) {
  const RecurrentSpec& spec = std::get<RecurrentSpec>(node.attributes);
  MOONLIT_RETURN_IF_ERROR(CheckRecurrent(graph, node, spec));
  if (spec.normalise && !(spec.eps > 0)) {
    return Errorf(Code::kCorrupt, "the norm of keys and queries adds %g: expected more than 0", double{spec.eps});
  }
  MOONLIT_RETURN_IF_ERROR(CheckWidth("decays", Width(graph, node, 3), spec.value_heads, 1));
  MOONLIT_RETURN_IF_ERROR(CheckWidth("betas", Width(graph, node, 4), spec.value_heads, 1));
  return spec.value_heads * spec.value_dim;
}

Result<size_t> DecayShape(const Graph& graph, const Node& node) {
  const size_t width = Width(graph, node, 0);
  for (size_t i = 0; i < 2; ++i) MOONLIT_RETURN_IF_ERROR(CheckVector(Weight(graph, node, i), width));
  return width;
}

Result<size_t> SigmoidShape(const Graph& graph, const Node& node) { return Width(graph, node, 0); }

Result<size_t> PairScoresShape(const Graph& graph, const Node& node) {
  const PairSpec& spec = std::get<PairSpec>(node.attributes);
  MOONLIT_RETURN_IF_ERROR(CheckPairs(spec));
  if (!(spec.softcap >= 0)) return Errorf(Code::kCorrupt, "a soft cap of %g: expected at least 0", spec.softcap);
  const size_t dim = Width(graph, node, 0) / spec.heads;
  if (dim == 0) return Errorf(Code::kCorrupt, "%zu heads of no elements: expected at least 1", spec.heads);
  MOONLIT_RETURN_IF_ERROR(CheckWidth("queries", Width(graph, node, 0), spec.heads, dim));
  MOONLIT_RETURN_IF_ERROR(CheckWidth("keys", Width(graph, node, 1), spec.kv_heads, dim));
  if (!node.weights.empty()) MOONLIT_RETURN_IF_ERROR(CheckVector(Weight(graph, node, 0), dim));
  return spec.heads * spec.keys;
}

Result<size_t> SoftmaxShape(const Graph& graph, const Node& node) {
  const size_t parts = std::get<SoftmaxAttributes>(node.attributes).parts, width = Width(graph, node, 0);
  if (parts == 0 || width % parts != 0)
    return Errorf(Code::kCorrupt, "%zu values in %zu equal parts: expected a divisor", width, parts);
  if (!node.weights.empty()) MOONLIT_RETURN_IF_ERROR(CheckVector(Weight(graph, node, 0), parts));
  return width;
}

Result<size_t> WeightedSumShape(const Graph& graph, const Node& node) {
  const PairSpec& spec = std::get<PairSpec>(node.attributes);
  MOONLIT_RETURN_IF_ERROR(CheckPairs(spec));
  MOONLIT_RETURN_IF_ERROR(CheckWidth("weights", Width(graph, node, 0), spec.heads, spec.keys));
  const size_t dim = Width(graph, node, 1) / spec.kv_heads;
  if (dim == 0) return Errorf(Code::kCorrupt, "%zu KV heads of no elements: expected at least 1", spec.kv_heads);
  MOONLIT_RETURN_IF_ERROR(CheckWidth("values", Width(graph, node, 1), spec.kv_heads, dim));
  return spec.heads * dim;
}

Result<size_t> HiddenShape(const Graph& graph, const Node& node) { return Width(graph, node, 0); }
Result<size_t> LogitsShape(const Graph& graph, const Node& node) { return LinearShape(graph, node); }

}  // namespace moonlit
