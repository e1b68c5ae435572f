// SPDX-License-Identifier: Apache-2.0
// Who looks on sees what the fused kernel reads and gives, and changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "kernels/attention/attention.h"
#include "runtime/exec/attention_tap.h"
#include "tests/exec/attention_fixture.h"
#include "tests/support/slowed.h"

namespace moonlit::test {
namespace {

constexpr size_t kTokens = kSlowed ? 80 : 150;

struct Seen {
  size_t index;
  std::vector<float> q, out;
  int64_t first, last;
};

class Watcher : public AttentionTap {
 public:
  explicit Watcher(size_t wanted = SIZE_MAX) : wanted_(wanted) {}  // SIZE_MAX: every layer
  void AddLayer(const TappedLayer& layer) override { layers.push_back(layer); }
  bool Wants(size_t index) const override { return wanted_ == SIZE_MAX || index == wanted_; }
  void Take(const TappedRow& row) override {
    const AttentionSpec& spec = *layers[row.index].spec;
    Seen seen{row.index, {}, {}, row.first, row.last};
    seen.q.assign(row.q, row.q + spec.heads * spec.key_dim);
    seen.out.assign(row.out, row.out + spec.heads * spec.value_dim);
    const std::lock_guard lock(mutex_);
    rows.resize(std::max(rows.size(), static_cast<size_t>(row.slot) + 1));
    rows[static_cast<size_t>(row.slot)].push_back(std::move(seen));
  }
  std::vector<TappedLayer> layers;
  std::vector<std::vector<Seen>> rows;  // [slots], in any order of the layers

 private:
  size_t wanted_;
  std::mutex mutex_;
};

AttentionSpec Spec(size_t window, size_t chunk) {
  AttentionSpec spec;
  spec.heads = 6, spec.kv_heads = 2, spec.key_dim = 24, spec.value_dim = 20;
  spec.scale = 0.3f;
  spec.norm_eps = 1e-5f;
  spec.rope = {.pairs = RopePairs::kHalves, .dims = 24, .base = 500};
  spec.window = window, spec.chunk = chunk;
  return spec;
}

bool Causal(int64_t i, int64_t j) { return j <= i; }

// Windowed with learned sinks and head norms.
AttentionLayer Decorated() {
  AttentionSpec spec = Spec(40, 0);
  spec.sinks = spec.q_norm = spec.k_norm = 0;  // the fixture's own
  return {spec, {.sees = [](int64_t i, int64_t j) { return j <= i && i - j < 40; }}};
}
AttentionLayer Chunked() {
  return {Spec(0, 32), {.sees = [](int64_t i, int64_t j) { return j <= i && i / 32 == j / 32; }}};
}

void ExpectSeen(const AttentionModel& model, const Watcher& watcher) {
  ASSERT_EQ(watcher.rows.size(), kTokens);
  for (size_t t = 0; t < kTokens; ++t) {
    for (const Seen& seen : watcher.rows[t]) {
      const std::vector<double> q = model.Query(seen.index, AttentionModel::Token(t), static_cast<int64_t>(t));
      // Rotating and normalising a head of 24: as many roundings of what is at most its norm, sqrt(24) with the fixture's data.
      for (size_t i = 0; i < q.size(); ++i) ASSERT_NEAR(seen.q[i], q[i], 2e-5) << "token " << t << " element " << i;
      for (int64_t j = 0; j < static_cast<int64_t>(kTokens); ++j) {
        ASSERT_EQ(seen.first <= j && j < seen.last, model.layers()[seen.index].rule.sees(static_cast<int64_t>(t), j))
            << "token " << t << " key " << j;
      }
    }
  }
}

TEST(AttentionTap, QueriesMasksAndOutputsAreTheKernels) {
  for (const AttentionLayer& layer : {AttentionLayer{Spec(0, 0), {.sees = Causal}}, Decorated(), Chunked()}) {
    const AttentionModel model({layer}, 5);
    Watcher watcher;
    const std::vector<float> outputs = model.Outputs({{kTokens}}, {.threads = 3, .chunk = 37, .tap = &watcher});
    ASSERT_EQ(watcher.layers.size(), 1u);
    ExpectSeen(model, watcher);
    // The fixture's head is the identity and there is one layer, so logits are its outputs.
    for (size_t t = 0; t < kTokens; ++t) {
      ASSERT_EQ(watcher.rows[t].size(), 1u);
      const auto row = outputs.begin() + static_cast<std::ptrdiff_t>(t * model.width());
      ASSERT_TRUE(std::equal(watcher.rows[t][0].out.begin(), watcher.rows[t][0].out.end(), row)) << "token " << t;
    }
    EXPECT_EQ(watcher.layers[0].sinks != nullptr, layer.spec.sinks != kNoWeight);
  }
}

TEST(AttentionTap, ChangesNoBit) {
  const AttentionModel model({Decorated(), {Spec(0, 0), {.sees = Causal}}}, 6);
  Watcher watcher;
  AttentionModel::Run plain{.threads = 2, .chunk = 64}, watched = plain;
  watched.tap = &watcher;
  EXPECT_EQ(model.Outputs({{kTokens}}, watched), model.Outputs({{kTokens}}, plain));
  ASSERT_EQ(watcher.layers.size(), 2u);
  EXPECT_NE(watcher.layers[0].group, watcher.layers[1].group) << "layers of different windows share no pages";
}

TEST(AttentionTap, OnlyWantedLayersAreTaken) {
  const AttentionModel model({Chunked(), {Spec(0, 0), {.sees = Causal}}}, 7);
  Watcher watcher(1);
  model.Outputs({{kTokens}}, {.chunk = 50, .tap = &watcher});
  ASSERT_EQ(watcher.rows.size(), kTokens);
  for (const auto& row : watcher.rows) {
    ASSERT_EQ(row.size(), 1u);
    EXPECT_EQ(row[0].index, 1u);
  }
}

// Sinks of sparse attention come beside the interval, rounded up to tiles.
TEST(AttentionTap, SparseWindowsAreWhatTheKernelSees) {
  const AttentionModel model({{Spec(0, 0), {.sees = Causal}}}, 8);
  Watcher watcher;
  model.Outputs({{kTokens}}, {.chunk = 64, .sparse = {.window = 8, .sinks = 4}, .tap = &watcher});
  EXPECT_EQ(watcher.layers[0].sink_slots, static_cast<int64_t>(kAttentionTile));
  const Seen& last = watcher.rows[kTokens - 1][0];
  EXPECT_EQ(last.first, static_cast<int64_t>(kTokens) - 8);
  EXPECT_EQ(last.last, static_cast<int64_t>(kTokens));
}

}  // namespace
}  // namespace moonlit::test
