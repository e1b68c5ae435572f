// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/attention_heads.h"

#include <algorithm>
#include <cmath>

namespace moonlit::cli {
namespace {

// Rows of the heads side by side: [tokens, heads * dim].
Matrix Queries(const CapturedLayer& layer, size_t first, size_t count, size_t tokens) {
  const size_t kept = layer.heads.size(), dim = layer.facts.spec->key_dim;
  Matrix q = Filled(tokens, count * dim, 0);
  for (size_t t = 0; t < tokens; ++t)
    std::copy_n(layer.queries.data() + (t * kept + first) * dim, count * dim, &q.at(t, 0));
  return q;
}

// Every head gets a copy of what it shares with others: the same bits (section 7 of the lesson).
Matrix Shared(const CapturedModel& model, const CapturedLayer& layer, size_t index, size_t first, size_t count,
              size_t tokens, bool keys) {
  const AttentionSpec& spec = *layer.facts.spec;
  const size_t dim = keys ? spec.key_dim : spec.value_dim;
  Matrix all = Filled(tokens, count * dim, 0);
  std::vector<float> rows;
  size_t held = SIZE_MAX;
  for (size_t h = 0; h < count; ++h) {
    const size_t kv_head = layer.heads[first + h] / (spec.heads / spec.kv_heads);
    if (kv_head != held) rows = keys ? model.Keys(index, kv_head) : model.Values(index, kv_head);
    held = kv_head;
    for (size_t t = 0; t < tokens; ++t) std::copy_n(rows.data() + t * dim, dim, &all.at(t, h * dim));
  }
  return all;
}

// What is added to scores: -inf where a token does not see another one, and ALiBi's slope times the distance.
Matrix Mask(const CapturedLayer& layer, size_t first, size_t count, size_t tokens) {
  const AttentionSpec& spec = *layer.facts.spec;
  Matrix mask = Filled(tokens, count * tokens, 0);
  for (size_t h = 0; h < count; ++h) {
    const float slope = spec.alibi_max_bias == 0
                            ? 0
                            : spec.alibi_scale * AlibiSlope(spec.alibi_max_bias, spec.heads, layer.heads[first + h]);
    for (size_t i = 0; i < tokens; ++i) {
      for (size_t j = 0; j < tokens; ++j) {
        const float distance = static_cast<float>(j) - static_cast<float>(i);
        mask.at(i, h * tokens + j) = layer.Sees(i, j) ? slope * distance : -INFINITY;
      }
    }
  }
  return mask;
}

Result<Matrix> Weights(LessonMachine& machine, const CapturedModel& model, const CapturedLayer& layer, size_t index,
                       size_t first, size_t count, size_t tokens) {
  const AttentionSpec& spec = *layer.facts.spec;
  LessonGraph g(machine, tokens);
  const ValueId q = g.ops.Scale(g.Input("q", Queries(layer, first, count, tokens)), spec.scale);
  const ValueId k = g.Input("k", Shared(model, layer, index, first, count, tokens, true));
  ValueId scores = g.ops.PairScores(q, k, {.keys = tokens, .heads = count, .kv_heads = count, .softcap = spec.softcap});
  scores = g.ops.AddPositions(scores, g.Table("mask", Mask(layer, first, count, tokens)));
  WeightId sinks = kNoWeight;
  if (layer.facts.sinks != nullptr) {
    std::vector<float> asked;
    for (size_t h = 0; h < count; ++h) asked.push_back(layer.facts.sinks[layer.heads[first + h]]);
    sinks = g.Vector("sinks", asked);
  }
  return g.Run(g.ops.Softmax(scores, count, sinks), tokens);
}

double Norm(const float* x, size_t n) {
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return std::sqrt(squares);
}

std::vector<double> RowNorms(const Matrix& rows, size_t head, size_t dim) {
  std::vector<double> norms;
  for (size_t t = 0; t < rows.rows; ++t) norms.push_back(Norm(&rows.values[t * rows.columns + head * dim], dim));
  return norms;
}

// One head: what the weights make of the values, against the kernel's outputs.
struct Comparison {
  const CapturedLayer& layer;
  const Matrix &weights, &k, &v, &sums;
  CacheType key_type, value_type;

  void Add(size_t first, size_t head, HeadTables& tables) const {
    const AttentionSpec& spec = *layer.facts.spec;
    const size_t tokens = sums.rows, kept = layer.heads.size(), dim = spec.value_dim;
    const std::vector<double> keys = RowNorms(k, head, spec.key_dim), values = RowNorms(v, head, dim);
    double difference = 0, strain = 0;
    for (size_t t = 0; t < tokens; ++t) {
      double apart = 0, whole = 0, longest = 0;
      for (size_t c = 0; c < dim; ++c) {
        const auto fused = static_cast<double>(layer.outputs[(t * kept + first + head) * dim + c]);
        const double x = static_cast<double>(sums.at(t, head * dim + c)) - fused;
        apart += x * x;
      }
      for (size_t j = 0; j < tokens; ++j) {
        whole += static_cast<double>(weights.at(t, head * tokens + j)) * values[j];
        if (layer.Sees(t, j)) longest = std::max(longest, keys[j]);
      }
      const double error = whole > 0 ? std::sqrt(apart) / whole : std::sqrt(apart);
      const double query = Norm(&layer.queries[(t * kept + first + head) * spec.key_dim], spec.key_dim);
      const double score = std::abs(static_cast<double>(spec.scale)) * query * longest;
      const double part = error / AllowedDifference(key_type, value_type, score);
      difference = error <= difference ? difference : std::isnan(error) ? INFINITY : error;
      strain = part <= strain ? strain : std::isnan(part) ? INFINITY : part;
    }
    tables.differences.push_back(difference);
    tables.strains.push_back(strain);
  }
};

}  // namespace

Result<HeadTables> ComputeHeads(LessonMachine& machine, const CapturedModel& model, const CapturedLayer& layer,
                                size_t index, size_t first, size_t count) {
  const size_t tokens = layer.first.size();
  HeadTables tables;
  MOONLIT_ASSIGN_OR_RETURN(tables.weights, Weights(machine, model, layer, index, first, count, tokens));
  LessonGraph g(machine, tokens);
  const Matrix k = Shared(model, layer, index, first, count, tokens, true);
  const Matrix v = Shared(model, layer, index, first, count, tokens, false);
  const ValueId values = g.Input("v", v), weights = g.Input("weights", tables.weights);
  MOONLIT_ASSIGN_OR_RETURN(
      const Matrix sums,
      g.Run(g.ops.WeightedSum(weights, values, {.keys = tokens, .heads = count, .kv_heads = count}), tokens));
  const Comparison comparison{layer, tables.weights, k, v, sums, model.options().key_type, model.options().value_type};
  for (size_t h = 0; h < count; ++h) comparison.Add(first, h, tables);
  return tables;
}

double AllowedDifference(CacheType keys, CacheType values, double score) {
  // docs/attention.md's bounds for heads of 64 and scores with a deviation of 3. Keys and queries of such scores have |q| |k| of
  // about 30 in the units of a score; errors grow with it.
  constexpr double kScore = 30, kMargin = 4;
  const auto of = [](CacheType type) {
    if (type == CacheType::kF32 || type == CacheType::kF16) return 4e-6;
    return type == CacheType::kBF16 ? 1e-2 : 5e-2;
  };
  return kMargin * std::max(of(keys), of(values)) * std::max(1.0, score / kScore);
}

}  // namespace moonlit::cli
