// SPDX-License-Identifier: Apache-2.0
// Recurrent layers in a plan: what they compute, and that cuts, threads, batches and failed steps leave the bits as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>

#include "kernels/linear_attention/reference.h"
#include "runtime/graph/composites.h"
#include "tests/exec/experts_fixture.h"
#include "tests/models/loaded_model.h"
#include "tests/smallops/variants.h"

namespace moonlit::test {
namespace {

using testing::HasSubstr;

constexpr size_t kIds = 300, kKeyHeads = 2, kValueHeads = 4, kKeyDim = 20, kValueDim = 13, kWidth = 4;
constexpr size_t kKeys = kKeyHeads * kKeyDim, kValues = kValueHeads * kValueDim, kMixed = 2 * kKeys + kValues;

enum class Layer { kDelta, kLinear };

// A token's id selects what goes into the layer; the head is the identity, so that logits are what comes out.
struct Model {
  Layer layer = Layer::kDelta;
  HeadOrder order = HeadOrder::kGrouped;
  std::vector<float> mixed = RandomFloats(kIds * kMixed, 1), alpha = RandomFloats(kIds * kValueHeads, 2, 2.0f);
  std::vector<float> beta = RandomFloats(kIds * kValueHeads, 3, 2.0f), z = RandomFloats(kIds * kValues, 4);
  std::vector<float> conv = RandomFloats(kMixed * kWidth, 5), conv_bias = RandomFloats(kMixed, 6, 0.2f);
  std::vector<float> rate = RandomFloats(kValueHeads, 7, 0.2f, -0.3f), bias = RandomFloats(kValueHeads, 8);
  std::vector<float> norm = RandomFloats(kValueDim, 9, 0.5f, 1.0f);

  RecurrentSpec Spec() const {
    RecurrentSpec spec;
    spec.key_heads = kKeyHeads;
    spec.value_heads = kValueHeads;
    spec.key_dim = kKeyDim;
    spec.value_dim = kValueDim;
    spec.order = order;
    spec.k_first = kKeys;
    spec.v_first = 2 * kKeys;
    spec.normalise = true;
    spec.scale = 0.25f;
    return spec;
  }

  MemorySource Source() const {
    std::vector<float> head(kIds * kValues);
    for (size_t i = 0; i < kValues; ++i) head[i * kValues + i] = 1;
    MemorySource source;
    source.Add("mixed", Format::kF32, {kIds, kMixed}, mixed);
    source.Add("alpha", Format::kF32, {kIds, kValueHeads}, alpha);
    source.Add("beta", Format::kF32, {kIds, kValueHeads}, beta);
    source.Add("z", Format::kF32, {kIds, kValues}, z);
    source.Add("conv", Format::kF32, {kMixed, kWidth}, conv);
    source.Add("conv_bias", Format::kF32, {kMixed}, conv_bias);
    source.Add("rate", Format::kF32, {kValueHeads}, rate);
    source.Add("bias", Format::kF32, {kValueHeads}, bias);
    source.Add("norm", Format::kF32, {kValueDim}, norm);
    source.Add("head", Format::kF32, {kIds, kValues}, head);
    return source;
  }

  void Build(Graph& g) const {
    const ValueId x = g.ShortConv(g.Embed(g.Weight("mixed", {kIds, kMixed})), g.Table("conv", {kMixed, kWidth}),
                                  g.Weight("conv_bias", {kMixed}), true);
    ValueId y = kNoValue;
    if (layer == Layer::kDelta) {
      const ValueId decay = g.Decay(g.Embed(g.Weight("alpha", {kIds, kValueHeads})), g.Weight("rate", {kValueHeads}),
                                    g.Weight("bias", {kValueHeads}));
      y = g.GatedDelta(x, x, x, decay, g.Sigmoid(g.Embed(g.Weight("beta", {kIds, kValueHeads}))), Spec());
    } else {
      y = g.LinearAttention(x, x, x, Spec());
    }
    y = GatedHeadNorm(g, y, g.Embed(g.Weight("z", {kIds, kValues})), kValueHeads, g.Weight("norm", {kValueDim}), 1e-6f);
    g.Logits(y, g.Weight("head", {kIds, kValues}));
  }
};

double Silu(double x) { return x / (1 + std::exp(-x)); }

// The head's columns of what the convolution gave, dense, as floats: [tokens, dim].
std::vector<float> Columns(const std::vector<double>& x, size_t first, size_t dim) {
  std::vector<float> part;
  for (size_t row = 0; row < x.size(); row += kMixed) {
    for (size_t i = 0; i < dim; ++i) part.push_back(static_cast<float>(x[row + first + i]));
  }
  return part;
}

// One value head's outputs before the norm, [tokens, kValueDim].
std::vector<double> ExpectedHead(const Model& m, const std::vector<double>& x, std::span<const int32_t> ids, size_t h) {
  const size_t key_head = m.order == HeadOrder::kGrouped ? h / (kValueHeads / kKeyHeads) : h % kKeyHeads;
  std::vector<double> state(kKeyDim * kValueDim), sums(kKeyDim), out(ids.size() * kValueDim);
  const RecurrentSpec spec = m.Spec();
  const ReferenceRecurrence head = {.key_dim = kKeyDim,
                                    .value_dim = kValueDim,
                                    .eps = static_cast<double>(spec.eps),
                                    .normalise = true,
                                    .scale = static_cast<double>(spec.scale),
                                    .state = state.data(),
                                    .sums = sums.data()};
  const std::vector<float> q = Columns(x, key_head * kKeyDim, kKeyDim);
  const std::vector<float> k = Columns(x, kKeys + key_head * kKeyDim, kKeyDim);
  const std::vector<float> v = Columns(x, 2 * kKeys + h * kValueDim, kValueDim);
  if (m.layer == Layer::kLinear) {
    ReferenceLinearAttention(head, ids.size(), q.data(), k.data(), v.data(), out.data());
    return out;
  }
  std::vector<float> decay, beta;
  for (int32_t id : ids) {
    const size_t at = static_cast<size_t>(id) * kValueHeads + h;
    decay.push_back(static_cast<float>(ReferenceDecay(static_cast<double>(m.alpha[at]), static_cast<double>(m.rate[h]),
                                                      static_cast<double>(m.bias[h]))));
    beta.push_back(static_cast<float>(1 / (1 + std::exp(-static_cast<double>(m.beta[at])))));
  }
  ReferenceGatedDelta(head, ids.size(), q.data(), k.data(), v.data(), decay.data(), beta.data(), out.data());
  return out;
}

// [tokens, kValues]
std::vector<double> Expected(const Model& m, std::span<const int32_t> ids) {
  std::vector<float> inputs((kWidth - 1) * kMixed), weight(m.conv.size());
  for (int32_t id : ids) {
    const auto row = m.mixed.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(id) * kMixed);
    inputs.insert(inputs.end(), row, row + kMixed);
  }
  for (size_t i = 0; i < weight.size(); ++i) weight[i % kWidth * kMixed + i / kWidth] = m.conv[i];
  std::vector<double> x(ids.size() * kMixed), out(ids.size() * kValues);
  ReferenceShortConv(ids.size(), kMixed, kWidth, inputs.data(), weight.data(), m.conv_bias.data(), x.data());
  for (double& value : x) value = Silu(value);
  for (size_t h = 0; h < kValueHeads; ++h) {
    const std::vector<double> head = ExpectedHead(m, x, ids, h);
    for (size_t t = 0; t < ids.size(); ++t) {
      const double* row = head.data() + t * kValueDim;
      const double squares = std::inner_product(row, row + kValueDim, row, 0.0);
      const double root = std::sqrt(squares / kValueDim + 1e-6);
      for (size_t j = 0; j < kValueDim; ++j) {
        const size_t column = h * kValueDim + j;
        const double gate = Silu(static_cast<double>(m.z[static_cast<size_t>(ids[t]) * kValues + column]));
        out[t * kValues + column] = row[j] / root * static_cast<double>(m.norm[j]) * gate;
      }
    }
  }
  return out;
}

// A sequence: its length and its state, which a step moves on when it succeeds.
struct Text {
  int64_t length = 0;
  std::vector<float> state;  // empty at the beginning
};

class Runner {
 public:
  explicit Runner(const Model& model, size_t threads = 2) {
    auto pool = ThreadPool::Create({.threads = threads});
    EXPECT_TRUE(pool.ok()) << pool.status().ToString();
    pool_ = std::move(pool).value();
    Graph graph;
    model.Build(graph);
    PlanOptions options{};
    options.variant = TestVariant();
    options.pool = pool_.get();
    options.max_rows = kIds;
    auto plan = Plan::Create(graph, model.Source(), options);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    plan_ = std::move(plan).value();
  }

  // One step with a span for each text. out: [spans], the first kValues logits of every wanted row.
  Status Step(std::vector<Text*> texts, const std::vector<std::span<const int32_t>>& ids, Outputs outputs,
              std::vector<std::vector<float>>& out, const std::atomic<bool>* abort = nullptr) {
    std::vector<StepSpan> spans(texts.size());
    std::vector<std::vector<float>> next(texts.size());
    for (size_t s = 0; s < texts.size(); ++s) {
      next[s].assign(plan_->state_bytes() / sizeof(float), NAN);
      spans[s].tokens = ids[s];
      spans[s].first_slot = texts[s]->length;
      spans[s].outputs = outputs;
      spans[s].state = texts[s]->state.empty() ? nullptr : texts[s]->state.data();
      spans[s].next_state = next[s].data();
    }
    Collector collector(kIds, texts.size());
    const Status status = plan_->Run(spans, &collector, abort);
    out.assign(texts.size(), {});
    for (size_t s = 0; status.ok() && s < texts.size(); ++s) {
      texts[s]->length += static_cast<int64_t>(ids[s].size());
      texts[s]->state = std::move(next[s]);
      for (size_t i = 0; i < collector.rows[s].size(); i += kIds) {
        out[s].insert(out[s].end(), collector.rows[s].begin() + static_cast<std::ptrdiff_t>(i),
                      collector.rows[s].begin() + static_cast<std::ptrdiff_t>(i + kValues));
      }
    }
    return status;
  }

  // The rows of a whole text, in steps of `chunk`.
  std::vector<float> Whole(std::span<const int32_t> ids, size_t chunk, Text* text = nullptr) {
    Text own;
    text = text == nullptr ? &own : text;
    std::vector<float> all;
    for (size_t i = 0; i < ids.size(); i += chunk) {
      std::vector<std::vector<float>> out;
      const Status status = Step({text}, {ids.subspan(i, std::min(chunk, ids.size() - i))}, Outputs::kAll, out);
      EXPECT_TRUE(status.ok()) << status.ToString();
      all.insert(all.end(), out[0].begin(), out[0].end());
    }
    return all;
  }
  Plan& plan() { return *plan_; }

 private:
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Plan> plan_;
};

std::vector<int32_t> Ids(size_t n, uint32_t seed) {
  std::vector<int32_t> ids(n);
  for (int32_t& id : ids)
    id = static_cast<int32_t>((seed = seed * 1664525u + 1013904223u) >> 8) % static_cast<int32_t>(kIds);
  return ids;
}

class RecurrentTest : public testing::TestWithParam<Layer> {
 protected:
  Model MakeModel(HeadOrder order = HeadOrder::kGrouped) const {
    Model model;
    model.layer = GetParam();
    model.order = order;
    return model;
  }
};

double WorstDifference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) worst = std::max(worst, std::fabs(double{a[i]} - double{b[i]}));
  return worst;
}

TEST_P(RecurrentTest, IsWhatTheFormulasSay) {
  for (HeadOrder order : {HeadOrder::kGrouped, HeadOrder::kTiled}) {
    const Model model = MakeModel(order);
    const std::vector<int32_t> ids = Ids(150, 1);
    const std::vector<double> expected = Expected(model, ids);
    Runner runner(model);
    for (size_t chunk : {150u, 64u, 7u}) {
      const std::vector<float> out = runner.Whole(ids, chunk);
      ASSERT_EQ(out.size(), expected.size());
      // A head's norm magnifies the error of a row that is small; rows below a hundredth of the usual size do not occur here.
      for (size_t i = 0; i < out.size(); ++i)
        ASSERT_NEAR(double{out[i]}, expected[i], 1e-4) << "chunk " << chunk << " at " << i;
    }
  }
}

TEST_P(RecurrentTest, ChunksOf64AndThreadsChangeNoBit) {
  const Model model = MakeModel();
  const std::vector<int32_t> ids = Ids(300, 2);
  Text text;
  const std::vector<float> whole = Runner(model, 1).Whole(ids, 300, &text);
  for (size_t threads : {1u, 2u, 3u, 8u}) {
    Runner runner(model, threads);
    for (size_t chunk : {64u, 128u, 192u, 256u}) {
      Text cut;
      EXPECT_EQ(runner.Whole(ids, chunk, &cut), whole) << threads << " threads, chunks of " << chunk;
      EXPECT_EQ(cut.state, text.state) << threads << " threads, chunks of " << chunk;
    }
  }
  for (size_t chunk : {1u, 16u, 17u, 100u}) {
    EXPECT_LE(WorstDifference(Runner(model).Whole(ids, chunk), whole), 1e-4) << "chunks of " << chunk;
  }
}

TEST_P(RecurrentTest, SequencesOfOneStepDoNotMeet) {
  Runner runner(MakeModel());
  const size_t lengths[] = {70, 1, 130, 16};
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<float>> alone;
  for (size_t s = 0; s < 4; ++s) {
    ids.push_back(Ids(lengths[s] + 3, static_cast<uint32_t>(10 + s)));
    Text text;
    alone.push_back(runner.Whole(std::span(ids[s]).first(lengths[s]), lengths[s], &text));
    const std::vector<float> rest = runner.Whole(std::span(ids[s]).subspan(lengths[s]), 3, &text);
    alone[s].insert(alone[s].end(), rest.begin(), rest.end());
  }
  Text texts[4];
  std::vector<std::vector<float>> first, second;
  std::vector<std::span<const int32_t>> heads, rests;
  for (size_t s = 0; s < 4; ++s) {
    heads.push_back(std::span(ids[s]).first(lengths[s]));
    rests.push_back(std::span(ids[s]).subspan(lengths[s]));
  }
  const std::vector<Text*> all = {&texts[0], &texts[1], &texts[2], &texts[3]};
  ASSERT_TRUE(runner.Step(all, heads, Outputs::kAll, first).ok());
  ASSERT_TRUE(runner.Step(all, rests, Outputs::kAll, second).ok());
  for (size_t s = 0; s < 4; ++s) {
    first[s].insert(first[s].end(), second[s].begin(), second[s].end());
    EXPECT_EQ(first[s], alone[s]) << "sequence " << s;
  }
}

TEST_P(RecurrentTest, AStepThatIsCancelledLeavesTheStateAsItWas) {
  Runner runner(MakeModel());
  const std::vector<int32_t> ids = Ids(200, 3);
  Text text;
  runner.Whole(std::span(ids).first(100), 100, &text);
  const std::vector<float> before = text.state;
  Text copy = text;  // what a fork starts from
  const std::atomic<bool> abort{true};
  std::vector<std::vector<float>> out;
  EXPECT_EQ(runner.Step({&text}, {std::span(ids).subspan(100)}, Outputs::kAll, out, &abort).code(), Code::kCancelled);
  EXPECT_EQ(std::memcmp(text.state.data(), before.data(), before.size() * sizeof(float)), 0);
  EXPECT_EQ(runner.Whole(std::span(ids).subspan(100), 100, &text),
            runner.Whole(std::span(ids).subspan(100), 100, &copy));
}

TEST_P(RecurrentTest, EveryRowMovesTheStateWhateverIsWanted) {
  Runner runner(MakeModel());
  const std::vector<int32_t> ids = Ids(140, 4);
  std::vector<std::vector<float>> expected;
  for (Outputs outputs : {Outputs::kAll, Outputs::kLast, Outputs::kNone}) {
    Text text;
    std::vector<std::vector<float>> first, second;
    ASSERT_TRUE(runner.Step({&text}, {std::span(ids).first(130)}, outputs, first).ok());
    ASSERT_TRUE(runner.Step({&text}, {std::span(ids).subspan(130)}, Outputs::kAll, second).ok());
    if (expected.empty()) expected = second;
    EXPECT_EQ(second, expected);
    EXPECT_EQ(first[0].size(), (outputs == Outputs::kAll ? 130 : outputs == Outputs::kLast ? 1 : 0) * kValues);
  }
}

TEST_P(RecurrentTest, RefusesSpansWithoutTheirState) {
  Runner runner(MakeModel());
  EXPECT_TRUE(runner.plan().cache_groups().empty());
  const size_t floats = runner.plan().state_bytes() / sizeof(float);
  EXPECT_GE(floats, kValueHeads * kKeyDim * kValueDim);
  std::vector<float> a(floats), b(floats);
  const std::vector<int32_t> ids = Ids(3, 5);
  StepSpan span{};
  span.tokens = ids;
  span.outputs = Outputs::kNone;
  const auto expect_refused = [&] {
    const Status status = runner.plan().Run({&span, 1}, nullptr);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("recurrent state"));
  };
  expect_refused();  // nothing to write
  span.next_state = a.data();
  EXPECT_TRUE(runner.plan().Run({&span, 1}, nullptr).ok());
  span.state = b.data();
  expect_refused();  // a state before the first token
  span.first_slot = 3;
  EXPECT_TRUE(runner.plan().Run({&span, 1}, nullptr).ok());
  span.state = a.data();
  expect_refused();  // one that is overwritten
  span.state = nullptr;
  expect_refused();  // none in the middle of a text
}

INSTANTIATE_TEST_SUITE_P(Layers, RecurrentTest, testing::Values(Layer::kDelta, Layer::kLinear),
                         [](const auto& info) { return info.param == Layer::kDelta ? "Delta" : "Linear"; });

Status PlanOf(const Graph& graph, const WeightSource& source) {
  const auto pool = ThreadPool::Create({.threads = 2}).value();
  PlanOptions options{};
  options.variant = TestVariant();
  options.pool = pool.get();
  return Plan::Create(graph, source, options).status();
}

// Heads of 1024 x 1024 and more of them than 32 bits count floats of.
TEST(Recurrent, StatesThatNoAddressReachesAreAStatus) {
  constexpr size_t kHeads = 4097, kDim = 1024, kColumns = (kHeads + 2) * kDim;
  RecurrentSpec spec;
  spec.key_heads = 1;
  spec.value_heads = kHeads;
  spec.key_dim = spec.value_dim = kDim;
  spec.k_first = kDim;
  spec.v_first = 2 * kDim;
  spec.scale = 1;
  MemorySource source;
  source.Add("in", Format::kF16, {1, kColumns}, std::vector<float>(kColumns));
  source.Add("head", Format::kF16, {1, kHeads * kDim}, std::vector<float>(kHeads * kDim));
  Graph g;
  const ValueId x = g.Embed(g.Weight("in", {1, kColumns}));
  g.Logits(g.LinearAttention(x, x, x, spec), g.Weight("head", {1, kHeads * kDim}));
  const Status status = PlanOf(g, source);
  EXPECT_EQ(status.code(), Code::kOutOfMemory) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("state of one sequence"));
}

// Sources that decode need memory of their own, in the pool's threads.
TEST(Loading, MemoryThatRunsOutInATaskIsAStatus) {
  class Exhausted : public MemorySource {
   public:
    Status Read(const TensorInfo&, uint64_t, void*, size_t) const override { throw std::bad_alloc(); }
  };
  Exhausted source;
  source.Add("in", Format::kF32, {4, 32}, std::vector<float>(128));
  source.Add("head", Format::kF32, {4, 32}, std::vector<float>(128));
  Graph g;
  g.Logits(g.Embed(g.Weight("in", {4, 32})), g.Weight("head", {4, 32}));
  const Status status = PlanOf(g, source);
  EXPECT_EQ(status.code(), Code::kOutOfMemory) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("not enough memory"));
}

}  // namespace
}  // namespace moonlit::test
