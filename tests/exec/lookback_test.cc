// SPDX-License-Identifier: Apache-2.0
// Sequences that give back the pages which no token of a windowed layer sees: the same bits, before and after context shifts that
// leave a window behind them, and no more pages than a window and a step need.
#include <gtest/gtest.h>

#include "kernels/base/round.h"
#include "tests/exec/attention_fixture.h"
#include "tests/support/slowed.h"

namespace moonlit::test {
namespace {

constexpr int64_t kUnit = 2 * kAttentionTile;

AttentionLayer Layer(size_t window, size_t chunk) {
  AttentionLayer layer;
  layer.spec.heads = 4;
  layer.spec.kv_heads = 2;
  layer.spec.key_dim = 16;
  layer.spec.value_dim = 16;
  layer.spec.scale = 0.3f;
  layer.spec.rope.pairs = RopePairs::kHalves;
  layer.spec.rope.dims = 16;
  layer.spec.window = window;
  layer.spec.chunk = chunk;
  return layer;
}

TEST(Lookback, GivesTheBitsOfSequencesThatKeepAllPages) {
  const std::vector<AttentionAct> read = {{1150}};
  const std::vector<AttentionAct> shifted = {
      {5 * kUnit + 5, 0, kUnit, 2 * kUnit}, {2 * kUnit, 0, kUnit, 3 * kUnit}, {kAttentionSegment + 9}};
  const std::pair<size_t, size_t> kinds[] = {{1, 0}, {64, 0}, {65, 0}, {200, 0}, {0, 128}, {100, 256}};
  for (const auto& [window, chunk_of] : kinds) {
    if (kSlowed && window != 65 && chunk_of != 128) continue;
    const AttentionModel model({Layer(0, 0), Layer(window, chunk_of)}, 3);
    for (const auto& acts : {read, shifted}) {
      const std::vector<float> expected = model.Outputs(acts, {});
      for (const auto& [page_tokens, chunk] : {std::pair<size_t, size_t>{64, 70}, {128, 512}, {64, 1}}) {
        if (kSlowed && chunk != 70) continue;
        if (chunk == 1 && window != 65) continue;
        size_t most_pages = 0;
        AttentionModel::Run run{.threads = 2, .page_tokens = page_tokens, .chunk = chunk};
        run.give_back = true;
        run.most_pages = &most_pages;
        EXPECT_TRUE(SameBits(model.Outputs(acts, run), expected)) << window << " " << chunk_of << " " << chunk;
        const size_t lookback = window == 0 ? chunk_of : window;
        // Window and step begin inside a page; one page is spare.
        EXPECT_LE(most_pages, CeilDiv(lookback, page_tokens) + CeilDiv(chunk, page_tokens) + 3);
      }
    }
  }
}

TEST(Lookback, IsWhatTheLayersOfAGroupSee) {
  auto pool = ThreadPool::Create({.threads = 1});
  const auto lookback = [&](std::vector<AttentionLayer> layers) {
    const AttentionModel model(std::move(layers), 3);
    auto plan = model.MakePlan(pool->get(), {});
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return (*plan)->lookback((*plan)->cache_groups().size() - 1);
  };
  EXPECT_EQ(lookback({Layer(0, 0)}), 0u);
  EXPECT_EQ(lookback({Layer(0, 0), Layer(70, 0)}), 70u);
  EXPECT_EQ(lookback({Layer(0, 0), Layer(0, 80)}), 80u);
  EXPECT_EQ(lookback({Layer(70, 80)}), 70u);
}

}  // namespace
}  // namespace moonlit::test
