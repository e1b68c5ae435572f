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

Status CheckWidth(const char* what, size_t found, size_t count, size_t dim) {
  if (found == count * dim) return Status();
  return Errorf(Code::kCorrupt, "%s are %zu wide: expected %zu heads of %zu", what, found, count, dim);
}

}  // namespace

Result<size_t> EmbedShape(const Graph& graph, const Node& node) {
  const WeightSpec& table = Weight(graph, node, 0);
  MOONLIT_RETURN_IF_ERROR(CheckRank(table, 2));
  return table.shape[1];
}

Result<size_t> RmsNormShape(const Graph& graph, const Node& node) {
  const size_t width = Width(graph, node, 0);
  MOONLIT_RETURN_IF_ERROR(CheckVector(Weight(graph, node, 0), width));
  return width;
}

Result<size_t> LinearShape(const Graph& graph, const Node& node) {
  MOONLIT_ASSIGN_OR_RETURN(const size_t outputs, MatrixOutputs(Weight(graph, node, 0), Width(graph, node, 0)));
  if (node.weights.size() > 1) MOONLIT_RETURN_IF_ERROR(CheckVector(Weight(graph, node, 1), outputs));
  return outputs;
}

Result<size_t> AttentionShape(const Graph& graph, const Node& node) {
  const AttentionSpec& spec = std::get<AttentionSpec>(node.attributes);
  if (spec.heads == 0 || spec.kv_heads == 0 || spec.heads % spec.kv_heads != 0 || spec.key_dim == 0 ||
      spec.value_dim == 0) {
    return Errorf(Code::kCorrupt, "%zu heads over %zu KV heads of size %zu and %zu: expected a multiple, and no zero",
                  spec.heads, spec.kv_heads, spec.key_dim, spec.value_dim);
  }
  MOONLIT_RETURN_IF_ERROR(CheckWidth("queries", Width(graph, node, 0), spec.heads, spec.key_dim));
  MOONLIT_RETURN_IF_ERROR(CheckWidth("keys", Width(graph, node, 1), spec.kv_heads, spec.key_dim));
  MOONLIT_RETURN_IF_ERROR(CheckWidth("values", Width(graph, node, 2), spec.kv_heads, spec.value_dim));
  MOONLIT_RETURN_IF_ERROR(CheckOptionalVector(graph, spec.q_norm, spec.key_dim));
  MOONLIT_RETURN_IF_ERROR(CheckOptionalVector(graph, spec.k_norm, spec.key_dim));
  MOONLIT_RETURN_IF_ERROR(CheckRope(graph, spec));
  return spec.heads * spec.value_dim;
}

Result<size_t> AddShape(const Graph& graph, const Node& node) {
  const size_t a = Width(graph, node, 0), b = Width(graph, node, 1);
  if (a == b) return a;
  return Errorf(Code::kCorrupt, "the two sides are %zu and %zu wide: expected equal widths", a, b);
}

Result<size_t> GateShape(const Graph& graph, const Node& node) { return AddShape(graph, node); }

Result<size_t> LogitsShape(const Graph& graph, const Node& node) {
  return MatrixOutputs(Weight(graph, node, 0), Width(graph, node, 0));
}

}  // namespace moonlit
