// SPDX-License-Identifier: Apache-2.0
// Sparse attention as a plan does it: against the judge, with the bits of dense attention where it covers the text, and the same
// bits for any threads, chunks and pages.
#include <gtest/gtest.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "tests/exec/attention_fixture.h"
#include "tests/models/loaded_model.h"
#include "tests/support/slowed.h"

namespace moonlit::test {
namespace {

using testing::HasSubstr;

constexpr int64_t kUnit = 2 * kAttentionTile;
constexpr size_t kPage = kAttentionTile;

AttentionLayer Layer(bool rotated, LayerRule rule) {
  AttentionSpec spec;
  spec.heads = 6;
  spec.kv_heads = 2;
  spec.key_dim = 24;
  spec.value_dim = 20;
  spec.scale = 0.3f;
  spec.rope.pairs = rotated ? RopePairs::kHalves : RopePairs::kNone;
  spec.rope.dims = 24;
  return {spec, std::move(rule)};
}
AttentionLayer Dense(bool rotated) {
  return Layer(rotated, {.sees = [](int64_t i, int64_t j) { return j <= i; }});
}

// Under an emulator the judge's double precision is software: it looks at one row of 37, and texts are shorter.
constexpr size_t kEvery = kSlowed ? 37 : 1;
constexpr size_t kLong = kSlowed ? 700 : 1300;
std::vector<AttentionAct> Long() { return {{kLong}}; }
std::vector<AttentionAct> Shifted() {
  if (kSlowed) return {{5 * kUnit + 5, 0, kUnit, 2 * kUnit}, {kUnit + 9, 0, 2 * kUnit, 3 * kUnit}, {70}};
  return {{5 * kUnit + 5, 0, kUnit, 2 * kUnit}, {2 * kUnit, 0, kUnit, 3 * kUnit}, {kAttentionSegment + 9}};
}

TEST(SinksAndWindow, AgreeWithTheJudge) {
  const std::pair<size_t, size_t> cases[] = {{100, 0}, {100, 4}, {100, 128}, {1, 64}, {600, 64}, {64, 65}};
  for (const auto& [window, sinks] : cases) {
    const auto w = static_cast<int64_t>(window), s = static_cast<int64_t>((sinks + 63) / 64 * 64);
    const LayerRule rule = {.sees = [w, s](int64_t i, int64_t j) { return j <= i && (i - j < w || j < s); }};
    if (kSlowed && window * sinks != 100 * 4 && window * sinks != 600 * 64) continue;  // of tiles' and windows' edges
    const AttentionModel model({Layer(true, rule)}, 5);
    for (const auto& acts : {Long(), Shifted()}) {
      AttentionModel::Run run{.page_tokens = kUnit, .sparse = {.window = window, .sinks = sinks}};
      const std::vector<float> out = model.Outputs(acts, run);
      EXPECT_LT(LargestError(out, model.Expected(acts, kEvery), model.width(), kEvery), 4e-6) << window << " " << sinks;
      run.page_tokens = sinks <= kPage ? kPage : kUnit;
      for (const auto& [threads, chunk] : {std::pair<size_t, size_t>{1, 1}, {3, 70}}) {
        if (kSlowed && chunk == 1) continue;
        run.threads = threads;
        run.chunk = chunk;
        EXPECT_TRUE(SameBits(model.Outputs(acts, run), out)) << window << " " << sinks << " " << threads;
      }
    }
  }
}

TEST(SinksAndWindow, HaveTheBitsOfDenseAttentionWhereTheyCoverTheText) {
  const AttentionModel model({Dense(true)}, 5);
  for (const auto& acts : {Long(), Shifted()}) {
    for (CacheType cache : {CacheType::kF32, CacheType::kQ8_0}) {
      if (kSlowed && (cache == CacheType::kF32) != (acts.size() == 1)) continue;
      const std::vector<float> dense = model.Outputs(acts, {.cache = cache});
      for (const SparseAttention& sparse :
           {SparseAttention{.window = kLong, .sinks = 64}, SparseAttention{.window = 5000}}) {
        EXPECT_TRUE(
            SameBits(model.Outputs(acts, {.threads = 2, .chunk = 50, .cache = cache, .sparse = sparse}), dense));
      }
    }
  }
}

TEST(SinksAndWindow, LeaveLayersWithMasksOfTheirOwn) {
  AttentionLayer windowed = Dense(true), chunked = Dense(true);
  windowed.spec.window = 300;
  chunked.spec.chunk = 256;
  const AttentionModel model({windowed, chunked}, 5);
  EXPECT_TRUE(SameBits(model.Outputs(Long(), {.sparse = {.window = 64, .sinks = 4}}), model.Outputs(Long(), {})));
}

using Rows = std::vector<std::vector<double>>;

// What Quest says, by the judge: three layers, of which the third chooses. all_keys, all_values: of each layer, by place.
std::vector<double> ChosenByTheJudge(const AttentionModel& model, const std::vector<Rows>& all_keys,
                                     const std::vector<Rows>& all_values, int32_t token, size_t place, size_t budget,
                                     double* closest) {
  const AttentionSpec& s = model.layers()[2].spec;
  std::vector<double> sum(model.width());
  const auto query = static_cast<int64_t>(place);
  const size_t group = s.heads / s.kv_heads, d = s.key_dim, dv = s.value_dim;
  for (size_t layer = 0; layer < 3; ++layer) {
    const std::vector<double> q = model.Query(layer, token, query);
    const Rows &keys = all_keys[layer], &values = all_values[layer];
    for (size_t head = 0; head < s.kv_heads; ++head) {
      const size_t count = place / kPage + 1;
      std::vector<std::pair<double, size_t>> bounds;  // of the pages between the first and the last
      for (size_t p = 1; p + 1 < count; ++p) {
        double bound = -INFINITY;
        for (size_t h = head * group; h < (head + 1) * group; ++h) {
          double sum_of_terms = 0;
          for (size_t i = 0; i < d; ++i) {
            double lowest = INFINITY, highest = -INFINITY;
            for (size_t j = p * kPage; j < (p + 1) * kPage; ++j) {
              lowest = std::min(lowest, keys[j][head * d + i]);
              highest = std::max(highest, keys[j][head * d + i]);
            }
            sum_of_terms += std::max(q[h * d + i] * lowest, q[h * d + i] * highest);
          }
          bound = std::max(bound, sum_of_terms);
        }
        bounds.emplace_back(-bound, p);
      }
      std::sort(bounds.begin(), bounds.end());
      const size_t middle = layer < 2 ? bounds.size() : std::min(bounds.size(), budget - 2);
      if (middle < bounds.size()) *closest = std::min(*closest, bounds[middle].first - bounds[middle - 1].first);
      std::vector<bool> kept(count, false);
      kept[0] = kept[count - 1] = true;
      for (size_t i = 0; i < middle; ++i) kept[bounds[i].second] = true;
      // The KV head's part alone.
      std::vector<std::vector<double>> some_keys, some_values;
      for (size_t j = 0; j <= place; ++j) {
        if (!kept[j / kPage]) continue;
        some_keys.emplace_back(keys[j].begin() + static_cast<std::ptrdiff_t>(head * d),
                               keys[j].begin() + static_cast<std::ptrdiff_t>((head + 1) * d));
        some_values.emplace_back(values[j].begin() + static_cast<std::ptrdiff_t>(head * dv),
                                 values[j].begin() + static_cast<std::ptrdiff_t>((head + 1) * dv));
      }
      const std::vector<double> some_q(q.begin() + static_cast<std::ptrdiff_t>(head * group * d),
                                       q.begin() + static_cast<std::ptrdiff_t>((head + 1) * group * d));
      const reference::AttentionRule rule{
          .heads = group, .kv_heads = 1, .key_dim = d, .value_dim = dv, .scale = double{s.scale}};
      const std::vector<double> out =
          reference::Attend(rule, some_q, query, some_keys, some_values, std::vector<int64_t>(some_keys.size()));
      for (size_t i = 0; i < out.size(); ++i) sum[head * group * dv + i] += out[i];
    }
  }
  return sum;
}

// A text that is read densely, a shift in one of two cases (unrotated keys have the same bounds wherever they stand), and tokens
// that choose.
TEST(ChosenPages, AgreeWithTheJudge) {
  constexpr size_t kRead = kSlowed ? 700 : 1200, kChosen = kSlowed ? 20 : 70;
  for (bool shifted : {false, true}) {
    const AttentionModel model({Dense(!shifted), Dense(!shifted), Dense(!shifted)}, 9);
    std::vector<AttentionAct> acts = {{kRead}, {kChosen}};
    if (shifted) acts[0] = {kRead, 0, kUnit, 3 * kUnit};
    const AttentionModel::Run run{.chunk = kSlowed ? 50u : 1u, .sparse = {.pages = 5}, .choose_from = kRead};
    const std::vector<float> out = model.Outputs(acts, run);
    ASSERT_EQ(out.size(), (kRead + kChosen) * model.width());
    std::vector<int32_t> present;
    for (size_t i = 0; i < kRead; ++i) present.push_back(AttentionModel::Token(i));
    present.erase(present.begin() + acts[0].first, present.begin() + acts[0].last);
    const size_t begin = present.size();
    for (size_t i = 0; i < kChosen; ++i) present.push_back(AttentionModel::Token(kRead + i));
    std::vector<Rows> keys(3), values(3);
    for (size_t layer = 0; layer < 3; ++layer) {
      for (size_t j = 0; j < present.size(); ++j) {
        keys[layer].push_back(model.Key(layer, present[j], static_cast<int64_t>(j)));
        values[layer].push_back(model.Value(layer, present[j]));
      }
    }
    std::vector<double> expected;
    double closest = INFINITY;
    for (size_t i = 0; i < kChosen; ++i) {
      const std::vector<double> row = ChosenByTheJudge(model, keys, values, present[begin + i], begin + i, 5, &closest);
      expected.insert(expected.end(), row.begin(), row.end());
    }
    ASSERT_GT(closest, 1e-4) << "a near tie, which float may decide otherwise: take another seed";
    const std::vector<float> chosen(out.end() - static_cast<std::ptrdiff_t>(kChosen * model.width()), out.end());
    EXPECT_LT(LargestError(chosen, expected, model.width()), 4e-6);
    if (kSlowed) continue;  // the judge reads all pages: whether any matters does not depend on the machine
    EXPECT_GT(LargestError(out, model.Expected(acts), model.width(), 1, kRead), 1e-2) << "pages are left out";
  }
}

TEST(ChosenPages, HaveTheSameBitsForAnyThreadsAndSteps) {
  const AttentionModel model({Dense(true), Dense(true), Dense(true)}, 9);
  std::vector<AttentionAct> acts = Shifted();
  acts.push_back({90});
  size_t from = 0;
  for (size_t i = 0; i + 1 < acts.size(); ++i) from += acts[i].append;
  for (CacheType cache : {CacheType::kF32, CacheType::kBF16, CacheType::kQ8_0}) {
    if (kSlowed && cache == CacheType::kBF16) continue;
    AttentionModel::Run run{
        .page_tokens = kUnit, .chunk = kSlowed ? 40u : 1u, .cache = cache, .sparse = {.pages = 4}, .choose_from = from};
    const std::vector<float> expected = model.Outputs(acts, run);
    for (size_t threads : {1, 3}) {
      for (size_t chunk : {1, 5, 40}) {
        if (kSlowed && (chunk != 5 || threads == 1)) continue;
        run.threads = threads;
        run.chunk = chunk;
        EXPECT_TRUE(SameBits(model.Outputs(acts, run), expected)) << threads << " " << chunk;
      }
    }
  }
}

TEST(ChosenPages, HaveTheBitsOfDenseAttentionWhereTheyCoverTheText) {
  const AttentionModel model({Dense(true), Dense(true), Dense(true)}, 9);
  for (const auto& acts : {Long(), Shifted()}) {
    for (CacheType cache : {CacheType::kF32, CacheType::kQ8_0}) {
      if (kSlowed && (cache == CacheType::kF32) != (acts.size() == 1)) continue;
      const std::vector<float> dense = model.Outputs(acts, {.cache = cache});
      const AttentionModel::Run run{
          .threads = 2, .chunk = 3, .cache = cache, .sparse = {.pages = 21}, .choose_from = 300};
      EXPECT_TRUE(SameBits(model.Outputs(acts, run), dense));
    }
  }
}

// Nor where the layers can't, nor for tokens that do not.
TEST(ChosenPages, AreForTokensThatChooseInLayersThatSeeAll) {
  AttentionLayer windowed = Dense(true), biased = Dense(false);
  windowed.spec.window = 700;
  biased.spec.alibi_max_bias = 8;
  const AttentionModel model({Dense(true), Dense(true), windowed, biased}, 9);
  const AttentionModel::Run run{.sparse = {.pages = 2}, .choose_from = 0};
  EXPECT_TRUE(SameBits(model.Outputs(Long(), run), model.Outputs(Long(), {})));
  const AttentionModel able({Dense(true), Dense(true), Dense(true)}, 9);
  EXPECT_TRUE(SameBits(able.Outputs(Long(), {.sparse = {.pages = 2}}), able.Outputs(Long(), {})));
}

TEST(SparseOptions, ThatMakeNoSenseAreRefused) {
  const AttentionModel model({Dense(true)}, 9);
  auto pool = ThreadPool::Create({.threads = 1});
  const auto refused = [&](const SparseAttention& sparse, const char* reason) {
    const auto plan = model.MakePlan(pool->get(), {.page_tokens = 128, .sparse = sparse});
    EXPECT_EQ(plan.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(plan.status().ToString(), HasSubstr(reason));
  };
  refused({.sinks = 4}, "4 attention sinks without an attention window");
  refused({.window = 100, .sinks = 129}, "a page, which has 128 tokens");
  refused({.window = 100, .pages = 4}, "no window beside them");
  refused({.pages = 1}, "at least 2");
}

}  // namespace
}  // namespace moonlit::test
