// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/experts_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <numeric>

#include "runtime/graph/composites.h"
#include "tests/models/loaded_model.h"
#include "tests/smallops/variants.h"

namespace moonlit::test {
namespace {

std::vector<float> Identity(size_t n) {
  std::vector<float> values(n * n);
  for (size_t i = 0; i < n; ++i) values[i * n + i] = 1;
  return values;
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

void MemorySource::Add(const std::string& name, Format format, const Shape& shape, const std::vector<float>& values) {
  ASSERT_EQ(values.size(), shape.elements()) << name;
  Entry& entry = entries_[name];
  const size_t row_bytes = RowBytes(format, shape.columns());
  entry.info = {name, format, shape, uint64_t{row_bytes} * shape.rows()};
  entry.bytes.resize(entry.info.bytes);
  for (size_t r = 0; r < shape.rows(); ++r) {
    Traits(format).quantize(values.data() + r * shape.columns(), nullptr, entry.bytes.data() + r * row_bytes,
                            shape.columns());
  }
}

std::vector<float> MemorySource::Values(const std::string& name) const {
  const Entry& entry = entries_.at(name);
  std::vector<float> values(entry.info.shape.elements());
  Traits(entry.info.format).dequantize(entry.bytes.data(), values.data(), values.size());
  return values;
}

const TensorInfo* MemorySource::Find(std::string_view name) const {
  const auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : &it->second.info;
}

std::vector<const TensorInfo*> MemorySource::All() const {
  std::vector<const TensorInfo*> all;
  for (const auto& [name, entry] : entries_) all.push_back(&entry.info);
  return all;
}

Status MemorySource::Read(const TensorInfo& tensor, uint64_t offset, void* out, size_t size) const {
  std::memcpy(out, entries_.find(tensor.name)->second.bytes.data() + offset, size);
  return Status();
}

TokenRunner::TokenRunner(const Graph& graph, const WeightSource& source, size_t threads, bool exact, size_t max_rows) {
  auto pool = ThreadPool::Create({.threads = threads});
  EXPECT_TRUE(pool.ok()) << pool.status().ToString();
  pool_ = std::move(pool).value();
  PlanOptions options{};
  options.variant = TestVariant();
  options.pool = pool_.get();
  options.max_rows = max_rows;
  options.exact = exact;
  auto plan = Plan::Create(graph, source, options);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  plan_ = std::move(plan).value();
}

std::vector<float> TokenRunner::Run(size_t rows, size_t chunk, size_t width) {
  std::vector<int32_t> tokens(rows);
  std::iota(tokens.begin(), tokens.end(), 0);
  const size_t vocab = plan_->vocab_size();
  Collector collector(vocab, 1);
  for (size_t i = 0; i < rows; i += chunk) {
    StepSpan span{};
    span.tokens = std::span(tokens).subspan(i, std::min(chunk, rows - i));
    span.outputs = Outputs::kAll;
    const Status ran = plan_->Run({&span, 1}, &collector);
    EXPECT_TRUE(ran.ok()) << ran.ToString();
  }
  std::vector<float> out(rows * width);
  for (size_t r = 0; r < rows; ++r) std::copy_n(collector.rows[0].data() + r * vocab, width, out.data() + r * width);
  return out;
}

Mixture::Mixture(const MixtureShape& shape, const ExpertsSpec& given, uint32_t seed) : spec(given), shape_(shape) {
  if (shape_.addend) shape_.out = shape_.d;
  const size_t experts = spec.route.experts;
  x = RandomFloats(shape.rows * shape.d, seed);
  logits = RandomFloats(shape.rows * experts, seed + 1, 2);
  gate = RandomFloats(experts * shape.ffn * shape.d, seed + 2, 0.3f);
  up = RandomFloats(experts * shape.ffn * shape.d, seed + 3, 0.3f);
  down = RandomFloats(experts * shape_.out * shape.ffn, seed + 4, 0.3f);
  gate_bias = RandomFloats(experts * shape.ffn, seed + 5);
  up_bias = RandomFloats(experts * shape.ffn, seed + 6);
  down_bias = RandomFloats(experts * shape_.out, seed + 7);
}

MemorySource Mixture::Source() const {
  const size_t experts = spec.route.experts;
  // Token ids go up to the size of the head, too; the other rows are not used.
  const size_t ids = std::max(shape_.rows, shape_.out);
  const auto padded = [&](std::vector<float> values, size_t width) {
    values.resize(ids * width);
    return values;
  };
  std::vector<float> head = Identity(shape_.out);
  head.resize(ids * shape_.out);
  MemorySource source;
  source.Add("x", Format::kF32, {ids, shape_.d}, padded(x, shape_.d));
  source.Add("logits", Format::kF32, {ids, experts}, padded(logits, experts));
  source.Add("gate", shape_.format, {experts, shape_.ffn, shape_.d}, gate);
  source.Add("up", shape_.format, {experts, shape_.ffn, shape_.d}, up);
  source.Add("down", shape_.format, {experts, shape_.out, shape_.ffn}, down);
  source.Add("gate_bias", Format::kF32, {experts, shape_.ffn}, gate_bias);
  source.Add("up_bias", Format::kF32, {experts, shape_.ffn}, up_bias);
  source.Add("down_bias", Format::kF32, {experts, shape_.out}, down_bias);
  source.Add("head", Format::kF32, {ids, shape_.out}, head);
  if (!selection_bias.empty()) source.Add("selection", Format::kF32, {experts}, selection_bias);
  return source;
}

void Mixture::Build(Graph& graph) const {
  const size_t experts = spec.route.experts, ids = std::max(shape_.rows, shape_.out);
  ExpertsSpec full = spec;
  if (!selection_bias.empty()) full.route.selection_bias = graph.Weight("selection", {experts});
  ExpertWeights weights{graph.Weight("gate", {experts, shape_.ffn, shape_.d}),
                        graph.Weight("up", {experts, shape_.ffn, shape_.d}),
                        graph.Weight("down", {experts, shape_.out, shape_.ffn})};
  if (shape_.biases) {
    weights.gate_bias = graph.Table("gate_bias", {experts, shape_.ffn});
    weights.up_bias = graph.Table("up_bias", {experts, shape_.ffn});
    weights.down_bias = graph.Table("down_bias", {experts, shape_.out});
  }
  const ValueId x = graph.Embed(graph.Weight("x", {ids, shape_.d}));
  const ValueId logits = graph.Embed(graph.Weight("logits", {ids, experts}));
  const ValueId y = graph.Experts(x, logits, weights, full);
  graph.Logits(shape_.addend ? graph.Add(x, y) : y, graph.Weight("head", {ids, shape_.out}));
}

TokenRunner Mixture::Prepare(const MemorySource& source, size_t threads, bool exact) const {
  Graph graph;
  Build(graph);
  return TokenRunner(graph, source, threads, exact, shape_.rows);
}

std::vector<float> Mixture::RunExpert(size_t expert, bool exact) const {
  const auto part = [&](const std::vector<float>& all) {
    const size_t size = all.size() / spec.route.experts;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(expert * size);
    return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(size));
  };
  MemorySource source;
  const size_t ids = std::max(shape_.rows, shape_.out);
  std::vector<float> inputs = x, head = Identity(shape_.out);
  inputs.resize(ids * shape_.d);
  head.resize(ids * shape_.out);
  source.Add("x", Format::kF32, {ids, shape_.d}, inputs);
  source.Add("gate", shape_.format, {shape_.ffn, shape_.d}, part(gate));
  source.Add("up", shape_.format, {shape_.ffn, shape_.d}, part(up));
  source.Add("down", shape_.format, {shape_.out, shape_.ffn}, part(down));
  source.Add("head", Format::kF32, {ids, shape_.out}, head);
  Graph graph;
  const ValueId y = GatedFeedForward(
      graph, graph.Embed(graph.Weight("x", {ids, shape_.d})), graph.Weight("gate", {shape_.ffn, shape_.d}),
      graph.Weight("up", {shape_.ffn, shape_.d}), graph.Weight("down", {shape_.out, shape_.ffn}));
  graph.Logits(y, graph.Weight("head", {ids, shape_.out}));
  return TokenRunner(graph, source, 2, exact, shape_.rows).Run(shape_.rows, shape_.rows, shape_.out);
}

std::vector<std::pair<size_t, double>> Mixture::Route(size_t row) const {
  const RouteSpec& route = spec.route;
  const float* row_logits = logits.data() + row * route.experts;
  std::vector<double> scores(row_logits, row_logits + route.experts);
  const auto softmax = [](std::vector<double>& v) {
    const double largest = *std::max_element(v.begin(), v.end());
    double sum = 0;
    for (double& s : v) sum += s = std::exp(s - largest);
    for (double& s : v) s /= sum;
  };
  if (route.scores == RouterScores::kSoftmax) softmax(scores);
  if (route.scores == RouterScores::kSigmoid) std::transform(scores.begin(), scores.end(), scores.begin(), Sigmoid);
  std::vector<size_t> order(route.experts);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (!selection_bias.empty()) return scores[a] + double{selection_bias[a]} > scores[b] + double{selection_bias[b]};
    return row_logits[a] > row_logits[b] || (std::isnan(row_logits[b]) && !std::isnan(row_logits[a]));
  });
  std::vector<double> weights;
  for (size_t i = 0; i < route.used; ++i) weights.push_back(scores[order[i]]);
  if (route.scores == RouterScores::kSoftmaxOfChosen) softmax(weights);
  const double sum = route.normalise ? std::accumulate(weights.begin(), weights.end(), 0.0) : 1.0;
  std::vector<std::pair<size_t, double>> chosen;
  for (size_t i = 0; i < route.used; ++i)
    chosen.emplace_back(order[i], weights[i] / std::max(sum, double{FLT_MIN}) * double{route.scale});
  return chosen;
}

Mixture::Expected Mixture::ReferenceOfExpert(size_t e, const std::vector<double>& in) const {
  const size_t d = shape_.d, ffn = shape_.ffn, out = shape_.out;
  std::vector<double> hidden(ffn), magnitude(ffn);
  for (size_t j = 0; j < ffn; ++j) {
    const double bias_g = shape_.biases ? double{gate_bias[e * ffn + j]} : 0;
    const double bias_u = shape_.biases ? double{up_bias[e * ffn + j]} : 0;
    double g = bias_g, u = bias_u, size_g = std::fabs(bias_g), size_u = std::fabs(bias_u);
    for (size_t i = 0; i < d; ++i) {
      const double pg = double{gate[(e * ffn + j) * d + i]} * in[i], pu = double{up[(e * ffn + j) * d + i]} * in[i];
      g += pg;
      u += pu;
      size_g += std::fabs(pg);
      size_u += std::fabs(pu);
    }
    hidden[j] = g * Sigmoid(g) * u;
    magnitude[j] = size_g * size_u;
  }
  Expected y{std::vector<double>(out), std::vector<double>(out)};
  for (size_t n = 0; n < out; ++n) {
    const double bias = shape_.biases ? double{down_bias[e * out + n]} : 0;
    y.values[n] = bias;
    y.magnitudes[n] = std::fabs(bias);
    for (size_t j = 0; j < ffn; ++j) {
      const double w = double{down[(e * out + n) * ffn + j]};
      y.values[n] += w * hidden[j];
      y.magnitudes[n] += std::fabs(w) * magnitude[j];
    }
  }
  return y;
}

Mixture::Expected Mixture::Reference(size_t row) const {
  const std::vector<double> in(x.begin() + static_cast<std::ptrdiff_t>(row * shape_.d),
                               x.begin() + static_cast<std::ptrdiff_t>((row + 1) * shape_.d));
  Expected sum{std::vector<double>(shape_.out), std::vector<double>(shape_.out)};
  for (size_t n = 0; shape_.addend && n < shape_.out; ++n) {
    sum.values[n] = in[n];
    sum.magnitudes[n] = std::fabs(in[n]);
  }
  for (const auto& [expert, weight] : Route(row)) {
    std::vector<double> input = in;
    for (double& v : input) v *= spec.weigh_inputs ? weight : 1.0;
    const double factor = spec.weigh_inputs ? 1.0 : weight;
    const Expected y = ReferenceOfExpert(expert, input);
    for (size_t n = 0; n < shape_.out; ++n) {
      sum.values[n] += factor * y.values[n];
      sum.magnitudes[n] += std::fabs(factor) * y.magnitudes[n];
    }
  }
  return sum;
}

}  // namespace moonlit::test
