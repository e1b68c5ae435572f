// SPDX-License-Identifier: Apache-2.0
// Attention and recurrent layers in one model, run as the engine does: pages and states of sequences together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/exec/experts_fixture.h"
#include "tests/models/loaded_model.h"
#include "tests/smallops/variants.h"

namespace moonlit::test {
namespace {

constexpr size_t kVocab = 64, kWidth = 48, kHeads = 2, kDim = 24;

enum class First { kRecurrence, kAttention };

class HybridTest : public testing::TestWithParam<First> {
 protected:
  HybridTest() {
    source_.Add("embd", Format::kF32, {kVocab, kWidth}, RandomFloats(kVocab * kWidth, 1));
    for (const char* name : {"aq", "ak", "av", "ao", "dq", "dk", "dv", "do"}) {
      const auto seed = static_cast<uint32_t>(name[0] * 7 + name[1]);
      source_.Add(name, Format::kF32, {kWidth, kWidth}, RandomFloats(kWidth * kWidth, seed, 0.3f));
    }
    source_.Add("gate", Format::kF32, {kHeads, kWidth}, RandomFloats(kHeads * kWidth, 2));
    source_.Add("rate", Format::kF32, {kHeads}, {-0.1f, -0.5f});
    source_.Add("bias", Format::kF32, {kHeads}, {0.5f, -0.5f});
    source_.Add("conv", Format::kF32, {kWidth, 4}, RandomFloats(kWidth * 4, 3));
    auto pool = ThreadPool::Create({.threads = 2});
    EXPECT_TRUE(pool.ok());
    threads_ = std::move(pool).value();
    Graph graph;
    Build(graph);
    PlanOptions options{};
    options.variant = TestVariant();
    options.pool = threads_.get();
    options.max_rows = 256;
    options.key_type = options.value_type = CacheType::kF32;
    auto plan = Plan::Create(graph, source_, options);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    plan_ = std::move(plan).value();
    PagePoolOptions pages;
    pages.state_bytes = plan_->state_bytes();
    pages.states = 6;
    auto cache = PagePool::Create(plan_->cache_groups(), 16, pages);
    EXPECT_TRUE(cache.ok()) << cache.status().ToString();
    cache_ = std::move(cache).value();
  }

  void Build(Graph& g) const {
    const auto weight = [&](const char* name) { return g.Weight(name, {kWidth, kWidth}); };
    const WeightId table = g.Weight("embd", {kVocab, kWidth});
    ValueId x = g.Embed(table);
    for (int layer = 0; layer < 2; ++layer) {
      g.SetLayer(layer);
      if ((layer == 0) == (GetParam() == First::kAttention)) {
        AttentionSpec spec;
        spec.heads = spec.kv_heads = kHeads;
        spec.key_dim = spec.value_dim = kDim;
        spec.scale = 0.2f;
        const ValueId q = g.Linear(x, weight("aq")), k = g.Linear(x, weight("ak")), v = g.Linear(x, weight("av"));
        x = g.Add(x, g.Linear(g.Attention(q, k, v, spec), weight("ao")));
      } else {
        RecurrentSpec spec;
        spec.key_heads = spec.value_heads = kHeads;
        spec.key_dim = spec.value_dim = kDim;
        spec.normalise = true;
        const ValueId gate = g.Linear(x, g.Weight("gate", {kHeads, kWidth}));
        const ValueId q = g.ShortConv(g.Linear(x, weight("dq")), g.Table("conv", {kWidth, 4}), kNoWeight, true);
        const ValueId k = g.Linear(x, weight("dk")), v = g.Linear(x, weight("dv"));
        const ValueId decay = g.Decay(gate, g.Weight("rate", {kHeads}), g.Weight("bias", {kHeads}));
        x = g.Add(x, g.Linear(g.GatedDelta(q, k, v, decay, g.Sigmoid(gate), spec), weight("do")));
      }
    }
    g.SetLayer(-1);
    g.Logits(x, table);
  }

  Status Step(Sequence& sequence, std::span<const int32_t> ids, Outputs outputs, std::vector<float>& out,
              const std::atomic<bool>* abort = nullptr) {
    MOONLIT_RETURN_IF_ERROR(sequence.Reserve(sequence.length() + static_cast<int64_t>(ids.size())));
    StepSpan span{};
    span.tokens = ids;
    span.pages = sequence.pages();
    span.first_slot = sequence.length();
    span.outputs = outputs;
    span.state = sequence.state();
    span.next_state = sequence.next_state();
    Collector collector(kVocab, 1);
    const Status status = plan_->Run({&span, 1}, &collector, abort);
    out = collector.rows[0];
    if (status.ok()) {
      sequence.Commit(ids);
    } else {
      sequence.Truncate(sequence.length());
    }
    return status;
  }

  std::vector<float> Rows(Sequence& sequence, std::span<const int32_t> ids, size_t chunk,
                          Outputs outputs = Outputs::kAll) {
    std::vector<float> all, out;
    for (size_t i = 0; i < ids.size(); i += chunk) {
      const Status status = Step(sequence, ids.subspan(i, std::min(chunk, ids.size() - i)), outputs, out);
      EXPECT_TRUE(status.ok()) << status.ToString();
      all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  }

  static std::vector<int32_t> Ids(size_t n) {
    std::vector<int32_t> ids(n);
    for (size_t i = 0; i < n; ++i) ids[i] = static_cast<int32_t>(i * i * 7 + i * 13 + 5) % static_cast<int32_t>(kVocab);
    return ids;
  }

  MemorySource source_;
  std::unique_ptr<ThreadPool> threads_;
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<PagePool> cache_;
};

TEST_P(HybridTest, ALayoutAloneHasTheSameSizes) {
  Graph graph;
  Build(graph);
  PlanOptions options = plan_->options();
  options.pool = nullptr;
  options.layout_only = true;
  options.threads = threads_->threads();
  auto layout = Plan::Create(graph, source_, options);
  ASSERT_TRUE(layout.ok()) << layout.status().ToString();
  const PlanSize found = (*layout)->size(), expected = plan_->size();
  EXPECT_EQ(found.packed_weight_bytes, expected.packed_weight_bytes);
  EXPECT_EQ(found.arena_bytes, expected.arena_bytes);
  EXPECT_EQ(found.product_scratch_bytes, expected.product_scratch_bytes);
  EXPECT_EQ(found.staging_bytes, expected.staging_bytes);
  EXPECT_GT((*layout)->state_bytes(), 0u);
  EXPECT_EQ((*layout)->state_bytes(), plan_->state_bytes());
  ASSERT_EQ((*layout)->cache_groups().size(), plan_->cache_groups().size());
  EXPECT_EQ((*layout)->cache_groups()[0].page_bytes, plan_->cache_groups()[0].page_bytes);
  EXPECT_EQ((*layout)->Run({}, nullptr).code(), Code::kInvalidArgument);
}

TEST_P(HybridTest, ChunksAndWantedRowsChangeNothing) {
  const std::vector<int32_t> ids = Ids(220);
  Sequence whole(cache_.get());
  const std::vector<float> expected = Rows(whole, ids, 220);
  Sequence cut(cache_.get());
  EXPECT_EQ(Rows(cut, ids, 64), expected);
  Sequence last(cache_.get());
  const std::vector<float> of_last = Rows(last, std::span(ids).first(200), 200, Outputs::kLast);
  EXPECT_TRUE(std::equal(of_last.begin(), of_last.end(), expected.begin() + 199 * kVocab));
  const std::vector<float> rest = Rows(last, std::span(ids).subspan(200), 20);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), expected.begin() + 200 * kVocab));
  Sequence single(cache_.get());
  const std::vector<float> steps = Rows(single, ids, 1);
  double size = 0, difference = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    size = std::max(size, std::fabs(double{expected[i]}));
    difference = std::max(difference, std::fabs(double{expected[i]} - double{steps[i]}));
  }
  EXPECT_LE(difference, 1e-4 * size);
  EXPECT_GT(difference, 0) << "no chunk took the chunked form";
}

TEST_P(HybridTest, ForksAndCancelledStepsKeepPagesAndStateTogether) {
  const std::vector<int32_t> ids = Ids(150);
  Sequence first(cache_.get());
  Rows(first, std::span(ids).first(100), 100);
  Sequence second = first.Fork();
  const std::atomic<bool> abort{true};
  std::vector<float> out;
  EXPECT_EQ(Step(first, Ids(40), Outputs::kAll, out, &abort).code(), Code::kCancelled);
  const std::vector<float> expected = Rows(second, std::span(ids).subspan(100), 50);
  EXPECT_EQ(Rows(first, std::span(ids).subspan(100), 50), expected);
  EXPECT_EQ(cache_->states()->free(), 4u);
}

INSTANTIATE_TEST_SUITE_P(Orders, HybridTest, testing::Values(First::kRecurrence, First::kAttention),
                         [](const auto& info) {
                           return info.param == First::kRecurrence ? "RecurrenceFirst" : "AttentionFirst";
                         });

}  // namespace
}  // namespace moonlit::test
