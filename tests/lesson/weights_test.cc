// SPDX-License-Identifier: Apache-2.0
// What `moonlit attention` shows, against formulas in double precision that know no caches, tiles nor graph ops (tests/reference), from
// the queries and keys of forward passes of real architectures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "tests/reference/attention.h"
#include "tests/support/slowed.h"
#include "tools/cli/attention_maps.h"

namespace moonlit::cli {
namespace {

using ::testing::HasSubstr;

constexpr double kUnit = 0x1p-24;

std::string Golden(const std::string& name) {
  return std::string(MOONLIT_SOURCE_DIR) + "/tests/data/golden/" + name + "/model.gguf";
}

std::unique_ptr<CapturedModel> Open(const std::string& name, CaptureOptions options = {}) {
  options.threads = 2;
  if (const char* variant = std::getenv("MOONLIT_VARIANT")) options.variant = variant;
  auto model = CapturedModel::Open(Golden(name), {}, options);
  EXPECT_TRUE(model.ok()) << name << ": " << model.status().ToString();
  return model.ok() ? std::move(model).value() : nullptr;
}

std::vector<int32_t> Ids(const CapturedModel& model, size_t count) {
  std::vector<int32_t> ids(count);
  const size_t vocab = model.facts().n_vocab;
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>((i * 31 + i * i % 7 + 3) % vocab);
  return ids;
}

AttentionMaps Maps(CapturedModel& model, const std::vector<int32_t>& ids, const MapRequest& request = {}) {
  auto maps = MakeMaps(model, ids, request);
  EXPECT_TRUE(maps.ok()) << maps.status().ToString();
  return maps.ok() ? std::move(maps).value() : AttentionMaps{};
}

std::vector<double> Row(const std::vector<float>& all, size_t at, size_t dim) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at * dim);
  return std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(dim));
}

// Heads of a power of two: the paper's slopes.
std::vector<double> Slopes(const AttentionSpec& spec, size_t head) {
  if (spec.alibi_max_bias == 0) return {};
  EXPECT_EQ(spec.heads & (spec.heads - 1), 0u);
  return {
      std::pow(2.0, -double{spec.alibi_max_bias} * static_cast<double>(head + 1) / static_cast<double>(spec.heads))};
}

struct Sight {
  bool both_ways = false;
  size_t sink_slots = 0, window = 0;  // of the options, where the layer has none
  bool operator()(const AttentionSpec& spec, int64_t i, int64_t j) const {
    if (both_ways) return true;
    const auto w = static_cast<int64_t>(spec.window != 0 ? spec.window : window);
    if (j > i || (spec.chunk != 0 && i / static_cast<int64_t>(spec.chunk) != j / static_cast<int64_t>(spec.chunk)))
      return false;
    return w == 0 || i - j < w || (spec.window == 0 && j < static_cast<int64_t>(sink_slots));
  }
};

// One head of a layer: every cell of the map is the formula's weight. Scores are sums of d products, each off by as many roundings of
// the sum of their magnitudes, twice (the sum below has them too), and the softmax adds its own.
void ExpectFormula(const CapturedModel& model, const CapturedLayer& layer, size_t index, size_t at, const HeadMap& map,
                   const Sight& sight) {
  const AttentionSpec& spec = *layer.facts.spec;
  const size_t tokens = layer.first.size(), head = layer.heads[at], d = spec.key_dim;
  const std::vector<float> keys = model.Keys(index, head / (spec.heads / spec.kv_heads));
  reference::AttentionRule rule{
      .heads = 1, .kv_heads = 1, .key_dim = d, .value_dim = tokens, .scale = double{spec.scale}};
  rule.softcap = double{spec.softcap};
  rule.slopes = Slopes(spec, head);
  rule.sees = [&](int64_t i, int64_t j) { return sight(spec, i, j); };
  std::vector<std::vector<double>> k, one;  // values that are rows of the identity, so that the output is the weights
  for (size_t j = 0; j < tokens; ++j) {
    k.push_back(Row(keys, j, d));
    one.emplace_back(tokens);
    one[j][j] = 1;
  }
  std::vector<int64_t> positions(tokens);
  std::iota(positions.begin(), positions.end(), 0);
  for (size_t i = 0; i < tokens; ++i) {
    const std::vector<double> q = Row(layer.queries, i * layer.heads.size() + at, d);
    double largest = rule.slopes.empty() ? 0 : static_cast<double>(tokens);
    for (size_t j = 0; j < tokens; ++j) {
      double magnitude = 0;
      for (size_t c = 0; c < d; ++c) magnitude += std::abs(q[c] * k[j][c]);
      largest = std::max(largest, magnitude * std::abs(rule.scale));
    }
    const double bound =
        (2 * static_cast<double>(d + 4) * largest + 2 * 2 * 24 + 12 + static_cast<double>(tokens)) * kUnit;
    const std::vector<double> expected = reference::Attend(rule, q, positions[i], k, one, positions);
    double sum = 0;
    for (size_t j = 0; j < tokens; ++j) {
      const float cell = map.cells[i * tokens + j];
      ASSERT_EQ(cell != kUnseen, sight(spec, positions[i], positions[j])) << "row " << i << " column " << j;
      if (cell == kUnseen) continue;
      ASSERT_NEAR(cell, expected[j], bound)
          << "layer " << map.layer << " head " << head << " row " << i << " column " << j;
      sum += double{cell};
    }
    ASSERT_NEAR(sum, 1, 1e-6);
  }
}

void ExpectModel(const std::string& name, const CaptureOptions& options, size_t tokens, const Sight& sight) {
  SCOPED_TRACE(name);
  const auto model = Open(name, options);
  ASSERT_NE(model, nullptr);
  const std::vector<int32_t> ids = Ids(*model, tokens);
  const AttentionMaps maps = Maps(*model, ids);
  EXPECT_EQ(maps.causal, !sight.both_ways);
  ASSERT_EQ(maps.bin, 1u);
  // Once more with all layers kept, since MakeMaps gives their memory back.
  AttentionCapture& capture = model->capture();
  size_t map = 0;
  for (size_t i = 0; i < capture.layers.size(); ++i) {
    std::vector<size_t> heads(capture.layers[i].facts.spec->heads);
    std::iota(heads.begin(), heads.end(), size_t{0});
    capture.Want(i, heads, ids.size());
  }
  ASSERT_TRUE(model->Read(ids).ok());
  for (size_t i = 0; i < capture.layers.size(); ++i) {
    for (size_t h = 0; h < capture.layers[i].heads.size(); ++h, ++map) {
      ASSERT_LT(map, maps.maps.size());
      const HeadMap& shown = maps.maps[map];
      ExpectFormula(*model, capture.layers[i], i, h, shown, sight);
      EXPECT_EQ(shown.unseen_weight, 0.0f);
      EXPECT_LE(shown.strain, 1);
      EXPECT_NEAR(shown.least_sum, 1, 1e-6);
      EXPECT_NEAR(shown.most_sum, 1, 1e-6);
    }
  }
  EXPECT_EQ(map, maps.maps.size());
}

constexpr size_t kShort = kSlowed ? 12 : 30;

TEST(AttentionWeights, GroupedQueries) { ExpectModel("llama", {}, kShort, {}); }
TEST(AttentionWeights, OneKeyHeadForAll) { ExpectModel("falcon", {}, kShort, {}); }
TEST(AttentionWeights, Windows) { ExpectModel("mistral", {}, kShort, {}); }
TEST(AttentionWeights, SoftCapAndWindows) { ExpectModel("gemma2", {}, kShort, {}); }
TEST(AttentionWeights, HeadNorms) { ExpectModel("qwen3", {}, kShort, {}); }
TEST(AttentionWeights, SharedKeysOfEarlierLayers) { ExpectModel("gemma4", {}, kShort, {}); }
TEST(AttentionWeights, Alibi) { ExpectModel("bloom", {}, kShort, {}); }
TEST(AttentionWeights, LearnedPositions) { ExpectModel("gpt2", {}, kShort, {}); }
TEST(AttentionWeights, AnEncoderSeesBothWays) { ExpectModel("bert", {}, kShort, {.both_ways = true}); }
// In chunks, so that most keys come from earlier steps.
TEST(AttentionWeights, ChunksAndRoundedKeys) {
  for (CacheType type : {CacheType::kBF16, CacheType::kQ8_0}) {
    CaptureOptions options;
    options.chunk_tokens = 7;
    options.key_type = options.value_type = type;
    ExpectModel("llama", options, kShort, {});
  }
}
TEST(AttentionWeights, AttentionSinksAndAWindow) {
  CaptureOptions options;
  options.window = 10;
  options.sinks = 1;
  ExpectModel("llama", options, kAttentionTile + (kSlowed ? 14 : 26), {.sink_slots = kAttentionTile, .window = 10});
}

TEST(AttentionWeights, TheSameForThreadsAndChunks) {
  const auto whole = Open("llama");
  CaptureOptions options;
  options.chunk_tokens = 5;
  options.page_tokens = 128;
  const auto pieces = Open("llama", options);
  const std::vector<int32_t> ids = Ids(*whole, kShort);
  const AttentionMaps a = Maps(*whole, ids), b = Maps(*pieces, ids);
  ASSERT_EQ(a.maps.size(), b.maps.size());
  for (size_t m = 0; m < a.maps.size(); ++m) EXPECT_EQ(a.maps[m].cells, b.maps[m].cells);
}

TEST(AttentionWeights, AskedLayersAndHeadsAlone) {
  const auto model = Open("llama");
  const std::vector<int32_t> ids = Ids(*model, 9);
  const AttentionMaps all = Maps(*model, ids), some = Maps(*model, ids, {.layers = {1}, .heads = {0, 2}, .pairs = 5});
  ASSERT_EQ(some.maps.size(), 2u);
  for (const HeadMap& map : some.maps) {
    EXPECT_EQ(map.layer, 1);
    const auto same = [&](const HeadMap& other) { return other.layer == map.layer && other.head == map.head; };
    EXPECT_EQ(std::find_if(all.maps.begin(), all.maps.end(), same)->cells, map.cells);
  }
  ASSERT_EQ(some.pairs.size(), 5u);
  for (size_t p = 0; p < 5; ++p) {
    const StrongPair& pair = some.pairs[p];
    EXPECT_EQ(pair.weight, some.maps[pair.map].cells[pair.query * ids.size() + pair.key]);
    EXPECT_GT(pair.query, 0u) << "the first token can but look at itself";
    if (p > 0) {
      EXPECT_LE(pair.weight, some.pairs[p - 1].weight);
    }
  }
}

TEST(AttentionWeights, WrongRequestsSaySo) {
  const auto model = Open("llama");
  const auto failure = [&](const std::vector<int32_t>& ids, const MapRequest& request) {
    return MakeMaps(*model, ids, request).status().ToString();
  };
  EXPECT_THAT(failure(Ids(*model, 3), {.layers = {77}}), HasSubstr("--layer 77"));
  EXPECT_THAT(failure(Ids(*model, 3), {.heads = {99}}), HasSubstr("--head 99"));
  EXPECT_THAT(failure({}, {}), HasSubstr("no tokens"));
  EXPECT_THAT(failure(Ids(*model, kMostTokens + 1), {}), HasSubstr("at most 4096"));
  EXPECT_THAT(failure({1, 1 << 30}, {}), HasSubstr("1073741824"));
  EXPECT_EQ(MakeMaps(*model, Ids(*model, 3), {}, [](size_t, size_t) { return false; }).status().code(),
            Code::kCancelled);
}

// --- binning, on a table made by hand

CapturedLayer CausalLayer(size_t tokens) {
  CapturedLayer layer{};
  for (size_t i = 0; i < tokens; ++i) {
    layer.first.push_back(0);
    layer.last.push_back(static_cast<int64_t>(i) + 1);
  }
  return layer;
}

// Row i gives 2 / ((i + 1)(i + 2)) * (j + 1) to key j.
Matrix Ramp(size_t tokens) {
  Matrix weights = Filled(tokens, tokens, 0);
  for (size_t i = 0; i < tokens; ++i) {
    for (size_t j = 0; j <= i; ++j)
      weights.at(i, j) = 2.0f * static_cast<float>(j + 1) / static_cast<float>((i + 1) * (i + 2));
  }
  return weights;
}

TEST(AttentionBins, ACellIsWhatQueriesGiveToKeysOnAverage) {
  const HeadMap map = MapOfHead(Ramp(5), 0, CausalLayer(5), 2);
  ASSERT_EQ(map.cells.size(), 9u);
  // Rows {0, 1}, {2, 3}, {4}: (1 + 1) / 2; (3/6 + 3/10) / 2, (3/6 + 7/10) / 2; 3/15, 7/15, 5/15.
  const double expected[] = {1, kUnseen, kUnseen, 0.4, 0.6, kUnseen, 0.2, 7.0 / 15, 1.0 / 3};
  for (size_t c = 0; c < 9; ++c) EXPECT_NEAR(map.cells[c], expected[c], 1e-6) << c;
  EXPECT_NEAR(map.least_sum, 1, 1e-6);
}

TEST(AttentionBins, RowsStillSumToOne) {
  for (size_t bin : {2, 3, 7, 64}) {
    const size_t tokens = 61, rows = (tokens + bin - 1) / bin;
    const HeadMap map = MapOfHead(Ramp(tokens), 0, CausalLayer(tokens), bin);
    for (size_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (size_t j = 0; j < rows; ++j) {
        if (map.cells[i * rows + j] != kUnseen) sum += double{map.cells[i * rows + j]};
      }
      EXPECT_NEAR(sum, 1, 1e-6);
    }
  }
}

TEST(AttentionBins, CoarserIsTheSameAsBinnedAtOnce) {
  const size_t tokens = 61;
  const HeadMap fine = MapOfHead(Ramp(tokens), 0, CausalLayer(tokens), 2);
  const HeadMap coarse = MapOfHead(Ramp(tokens), 0, CausalLayer(tokens), 6);
  const std::vector<float> again = Coarser(fine.cells, 31, 3, 2, tokens);
  ASSERT_EQ(again.size(), coarse.cells.size());
  for (size_t c = 0; c < again.size(); ++c) EXPECT_NEAR(again[c], coarse.cells[c], 1e-6) << c;
}

TEST(AttentionBins, LongTextsAndManyMapsAreBinned) {
  EXPECT_EQ(BinOf(1, 1), 1u);
  EXPECT_EQ(BinOf(512, 1), 1u);
  EXPECT_EQ(BinOf(513, 1), 2u);
  EXPECT_EQ(BinOf(4096, 64), 8u);
  EXPECT_EQ(BinOf(512, 1024), 4u);
  for (size_t maps : {1u, 30u, 270u, 4096u}) {
    const size_t rows = (kMostTokens + BinOf(kMostTokens, maps) - 1) / BinOf(kMostTokens, maps);
    EXPECT_LE(rows * rows * maps, kMostCells);
  }
}

TEST(AttentionBins, ALongTextOfAModel) {
  if (kSlowed) GTEST_SKIP() << "600 tokens";
  const auto model = Open("llama");
  const AttentionMaps maps = Maps(*model, Ids(*model, 600), {.layers = {0}, .heads = {1}});
  EXPECT_EQ(maps.bin, 2u);
  EXPECT_EQ(maps.rows, 300u);
  EXPECT_LE(maps.maps[0].strain, 1);
  EXPECT_EQ(maps.RowLabel(299).substr(0, 8), "598-599 ");
}

TEST(AttentionFigures, EntropyOfEqualWeightsIsTheirNumbersLogarithm) {
  Matrix weights = Filled(3, 3, 0);
  weights.at(0, 0) = 1, weights.at(1, 0) = weights.at(1, 1) = 0.5f;
  for (size_t j = 0; j < 3; ++j) weights.at(2, j) = 1.0f / 3;
  EXPECT_NEAR(MapOfHead(weights, 0, CausalLayer(3), 1).entropy, (0 + 1 + std::log2(3.0)) / 3, 1e-6);
  weights.at(0, 2) = 0.25f;  // a mask that failed
  EXPECT_EQ(MapOfHead(weights, 0, CausalLayer(3), 1).unseen_weight, 0.25f);
}

}  // namespace
}  // namespace moonlit::cli
