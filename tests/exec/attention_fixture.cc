// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/attention_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/models/loaded_model.h"
#include "tests/reference/math.h"
#include "tests/smallops/variants.h"

namespace moonlit::test {
namespace {

std::string Name(const char* stem, size_t layer) { return stem + std::to_string(layer); }

void Rotate(const AttentionSpec& s, int64_t place, std::vector<double>& x) {
  using reference::Rotation;
  if (s.rope.pairs == RopePairs::kNone) return;
  const Rotation rotation{s.rope.pairs == RopePairs::kHalves ? Rotation::kHalves : Rotation::kNeighbours,
                          s.rope.dims,
                          s.rope.base,
                          1,
                          1,
                          nullptr};
  for (size_t h = 0; h < x.size() / s.key_dim; ++h) {
    reference::Rotate(rotation, static_cast<double>(place), x.data() + h * s.key_dim);
  }
}

}  // namespace

AttentionModel::AttentionModel(std::vector<AttentionLayer> layers, uint32_t seed) : layers_(std::move(layers)) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const AttentionSpec& s = layers_[i].spec;
    const auto add = [&](const char* stem, const Shape& shape, float range, float offset = 0) {
      source_.Add(Name(stem, i), Format::kF32, shape, RandomFloats(shape.elements(), seed++, range, offset));
    };
    add("q", {kAttentionIds, s.heads * s.key_dim}, 2);
    add("k", {kAttentionIds, s.kv_heads * s.key_dim}, 2);
    add("v", {kAttentionIds, s.kv_heads * s.value_dim}, 1);
    add("sinks", {s.heads}, 3);
    add("q_norm", {s.key_dim}, 0.5f, 1);
    add("k_norm", {s.kv_heads, s.key_dim}, 0.5f, 1);
  }
  std::vector<float> head(kAttentionIds * width());
  for (size_t i = 0; i < width(); ++i) head[i * width() + i] = 1;
  source_.Add("head", Format::kF32, {kAttentionIds, width()}, head);
}

Graph AttentionModel::Build() const {
  Graph graph;
  ValueId sum = kNoValue;
  for (size_t i = 0; i < layers_.size(); ++i) {
    AttentionSpec s = layers_[i].spec;
    graph.SetLayer(static_cast<int>(i));
    const auto row = [&](const char* stem, size_t width) {
      return graph.Embed(graph.Weight(Name(stem, i), {kAttentionIds, width}));
    };
    // 0: wanted, of this layer.
    if (s.sinks == 0) s.sinks = graph.Weight(Name("sinks", i), {s.heads});
    if (s.q_norm == 0) s.q_norm = graph.Weight(Name("q_norm", i), {s.key_dim});
    if (s.k_norm == 0) s.k_norm = graph.Table(Name("k_norm", i), {s.kv_heads, s.key_dim});
    const ValueId q = row("q", s.heads * s.key_dim);
    ValueId out;
    if (layers_[i].rule.keys_of != SIZE_MAX) {
      out = graph.SharedAttention(q, static_cast<int>(layers_[i].rule.keys_of), s);
    } else {
      const ValueId k = row("k", s.kv_heads * s.key_dim);
      out = graph.Attention(q, k, row("v", s.kv_heads * s.value_dim), s);
    }
    sum = sum == kNoValue ? out : graph.Add(sum, out);
    graph.EndLayer(sum);
  }
  graph.Logits(sum, graph.Weight("head", {kAttentionIds, width()}));
  return graph;
}

Result<std::unique_ptr<Plan>> AttentionModel::MakePlan(ThreadPool* pool, const Run& run) const {
  PlanOptions options{};
  options.variant = TestVariant();
  options.pool = pool;
  options.max_rows = run.chunk;
  options.page_tokens = run.page_tokens;
  options.key_type = options.value_type = run.cache;
  options.sparse = run.sparse;
  options.sparse.most_pages = 64;
  options.sparse.most_tokens = run.chunk;
  return Plan::Create(Build(), source_, options);
}

std::vector<float> AttentionModel::Outputs(const std::vector<AttentionAct>& acts, const Run& given) const {
  Run run = given;
  // What is only there to be looked back at is read in fewer steps.
  const size_t read_chunk = run.choose_from == SIZE_MAX ? run.chunk : std::max<size_t>(run.chunk, 128);
  run.chunk = read_chunk;
  for (const AttentionAct& act : acts) run.chunk = std::max(run.chunk, act.prefix);
  auto pool = ThreadPool::Create({.threads = run.threads});
  auto plan = MakePlan(pool->get(), run);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  if (!plan.ok()) return {};
  PagePoolOptions pool_options{.share_prefixes = false};
  const size_t groups = (*plan)->cache_groups().size();
  for (size_t g = 0; g < groups && run.give_back; ++g) pool_options.lookback.push_back((*plan)->lookback(g));
  auto pages = PagePool::Create((*plan)->cache_groups(), 64, pool_options);
  EXPECT_TRUE(pages.ok()) << pages.status().ToString();
  Sequence sequence(pages->get());
  std::vector<float> out;
  size_t read = 0;
  for (const AttentionAct& act : acts) {
    for (size_t done = 0, count; done < act.append; done += count) {
      count = std::min(act.append - done, done < act.prefix ? std::max(act.prefix, read_chunk) : read_chunk);
      const bool chooses = read >= run.choose_from;
      if (chooses) count = std::min(count, given.chunk);
      if (!chooses) count = std::min(count, run.choose_from - read);
      std::vector<int32_t> tokens;
      for (size_t i = 0; i < count; ++i) tokens.push_back(Token(read++));
      EXPECT_TRUE(sequence.Reserve(sequence.length() + static_cast<int64_t>(count)).ok());
      if (run.most_pages != nullptr) {
        *run.most_pages = std::max(*run.most_pages, 64 - (*pages)->free_pages(groups - 1));
      }
      const StepSpan span{.tokens = tokens,
                          .pages = sequence.pages(),
                          .first_slot = sequence.length(),
                          .positions = {},
                          .outputs = Outputs::kAll,
                          .runs = sequence.runs(),
                          .prefix = done == 0 ? act.prefix : 0,
                          .choose_pages = chooses,
                          .tap = run.tap};
      Collector collector(kAttentionIds, 1);
      const Status ran = (*plan)->Run({&span, 1}, &collector);
      EXPECT_TRUE(ran.ok()) << ran.ToString();
      if (!ran.ok()) return {};
      sequence.Commit(tokens);
      for (size_t i = 0; i < count; ++i) {
        const auto row = collector.rows[0].begin() + static_cast<std::ptrdiff_t>(i * kAttentionIds);
        out.insert(out.end(), row, row + static_cast<std::ptrdiff_t>(width()));
      }
    }
    sequence.Drop(act.first, act.last);
  }
  return out;
}

std::vector<double> AttentionModel::Row(const char* name, size_t layer, int32_t id) const {
  const std::vector<float> all = source_.Values(Name(name, layer));
  const size_t columns = all.size() / kAttentionIds;
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(id) * columns);
  return std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(columns));
}

// Of each head: x, less its mean for a layer norm, over its root mean square, times the weight where there is one.
void AttentionModel::NormHeads(const char* name, size_t layer, std::vector<double>& x) const {
  const AttentionSpec& s = layers_[layer].spec;
  const bool is_q = name[0] == 'q';
  const bool weighted = (is_q ? s.q_norm : s.k_norm) != kNoWeight;
  if (!weighted && !s.plain_norms) return;
  const std::vector<float> weight = source_.Values(Name(name, layer));
  for (size_t h = 0; h < x.size() / s.key_dim; ++h) {
    double* head = x.data() + h * s.key_dim;
    double mean = 0, squares = 0;
    for (size_t i = 0; i < s.key_dim; ++i) mean += head[i] / static_cast<double>(s.key_dim);
    if (s.norm_kind == NormKind::kRms) mean = 0;
    for (size_t i = 0; i < s.key_dim; ++i) squares += (head[i] - mean) * (head[i] - mean);
    const double root = std::sqrt(squares / static_cast<double>(s.key_dim) + double{s.norm_eps});
    for (size_t i = 0; i < s.key_dim; ++i) {
      head[i] = (head[i] - mean) / root * (weighted ? double{weight[(is_q ? 0 : h * s.key_dim) + i]} : 1.0);
    }
  }
}

std::vector<double> AttentionModel::Query(size_t layer, int32_t id, int64_t place) const {
  const AttentionSpec& s = layers_[layer].spec;
  std::vector<double> q = Row("q", layer, id);
  NormHeads("q_norm", layer, q);
  Rotate(s, place, q);
  const auto& factor = layers_[layer].rule.query_factor;
  for (double& x : q) x *= factor ? factor(place) : 1.0;
  return q;
}

std::vector<double> AttentionModel::Key(size_t layer, int32_t id, int64_t place) const {
  const AttentionSpec& s = layers_[layer].spec;
  std::vector<double> k = Row("k", layer, id);
  NormHeads("k_norm", layer, k);
  Rotate(s, place, k);
  return k;
}

std::vector<double> AttentionModel::Value(size_t layer, int32_t id) const {
  const AttentionSpec& s = layers_[layer].spec;
  std::vector<double> v = Row("v", layer, id);
  for (size_t h = 0; h < s.kv_heads && s.value_norm; ++h) {
    double squares = 0;
    for (size_t i = 0; i < s.value_dim; ++i) squares += v[h * s.value_dim + i] * v[h * s.value_dim + i];
    const double root = std::sqrt(squares / static_cast<double>(s.value_dim) + double{s.norm_eps});
    for (size_t i = 0; i < s.value_dim; ++i) v[h * s.value_dim + i] /= root;
  }
  return v;
}

std::vector<double> AttentionModel::Expected(const std::vector<AttentionAct>& acts, size_t every) const {
  std::vector<double> out;
  std::vector<int32_t> present;
  size_t read = 0;
  for (const AttentionAct& act : acts) {
    const size_t begin = present.size();
    std::vector<size_t> wanted;
    for (size_t i = 0; i < act.append; ++i) {
      present.push_back(Token(read++));
      if (read % every == 0) wanted.push_back(begin + i);
    }
    std::vector<double> rows(wanted.size() * width());
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      const auto& [spec, rule] = layers_[layer];
      const size_t keys_of = rule.keys_of == SIZE_MAX ? layer : rule.keys_of;
      reference::AttentionRule judge{.heads = spec.heads,
                                     .kv_heads = spec.kv_heads,
                                     .key_dim = spec.key_dim,
                                     .value_dim = spec.value_dim,
                                     .scale = double{spec.scale},
                                     .softcap = double{spec.softcap}};
      judge.slopes = rule.slopes;
      if (spec.sinks != kNoWeight) {
        for (float sink : source_.Values(Name("sinks", layer))) judge.sinks.push_back(double{sink});
      }
      const auto first = static_cast<int64_t>(begin), prefix = static_cast<int64_t>(begin + act.prefix);
      judge.sees = [&](int64_t query, int64_t key) {
        const bool together = query >= first && query < prefix && key >= first && key < prefix;
        return together || rule.sees(query, key);
      };
      std::vector<std::vector<double>> keys, values;
      std::vector<int64_t> places;
      for (size_t j = 0; j < present.size(); ++j) {
        places.push_back(static_cast<int64_t>(j));
        keys.push_back(Key(keys_of, present[j], places.back()));
        values.push_back(Value(keys_of, present[j]));
      }
      for (size_t i = 0; i < wanted.size(); ++i) {
        const auto place = static_cast<int64_t>(wanted[i]);
        const std::vector<double> y =
            reference::Attend(judge, Query(layer, present[wanted[i]], place), place, keys, values, places);
        for (size_t n = 0; n < y.size(); ++n) rows[i * width() + n] += y[n];
      }
    }
    out.insert(out.end(), rows.begin(), rows.end());
    present.erase(present.begin() + act.first, present.begin() + act.last);
  }
  return out;
}

double LargestError(const std::vector<float>& out, const std::vector<double>& expected, size_t width, size_t every,
                    size_t first) {
  const size_t rows = out.size() / width / every;
  EXPECT_EQ(rows * width, expected.size());
  EXPECT_GT(rows, first);
  if (rows <= first || rows * width != expected.size()) return INFINITY;
  double largest = 0;
  for (size_t row = first; row < rows; ++row) {
    const float* y = out.data() + ((row + 1) * every - 1) * width;
    double error = 0, size = 0;
    for (size_t i = 0; i < width; ++i) {
      const double wanted = expected[row * width + i];
      error += (double{y[i]} - wanted) * (double{y[i]} - wanted);
      size += wanted * wanted;
    }
    largest = std::max(largest, std::sqrt(error / size));
  }
  return largest;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace moonlit::test
