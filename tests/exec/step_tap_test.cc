// SPDX-License-Identifier: Apache-2.0
// Who looks on sees what the fused kernel reads and gives, the weights that it never stores, and changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/attention/attention.h"
#include "runtime/exec/step_tap.h"
#include "tests/exec/attention_fixture.h"
#include "tests/support/slowed.h"

namespace moonlit::test {
namespace {

constexpr size_t kTokens = kSlowed ? 80 : 150;

struct Seen {
  size_t index;
  std::vector<float> q, out;
  int64_t first, last;
  std::vector<std::vector<float>> weights;  // [heads] [slots]
};

// Keeps what it sees. Weights are taken where `weights` is set.
class Watcher : public StepTap {
 public:
  explicit Watcher(const AttentionModel& model, bool weights = false, size_t wanted = SIZE_MAX)
      : model_(model), weights_(weights), wanted_(wanted) {}  // SIZE_MAX: every layer
  bool WantsStream(int) const override { return true; }
  bool WantsAttention(size_t index) const override { return wanted_ == SIZE_MAX || index == wanted_; }
  Status TakeStream(const TappedStream& stream) override {
    streams.resize(std::max(streams.size(), static_cast<size_t>(stream.layer) + 1));
    for (size_t r = 0; r < stream.rows; ++r) {
      const float* row = stream.values + r * stream.stride;
      streams[static_cast<size_t>(stream.layer)].insert(streams[static_cast<size_t>(stream.layer)].end(), row,
                                                        row + stream.width);
    }
    return Status();
  }
  Status TakeAttention(TappedAttention& attention) override {
    const AttentionSpec& spec = model_.layers()[attention.index].spec;
    const size_t width = static_cast<size_t>(attention.Sees(attention.tokens - 1).last);
    std::vector<std::vector<float>> tables;
    for (size_t h = 0; h < spec.heads && weights_; ++h) {
      tables.emplace_back(attention.tokens * width, -1.0f);
      MOONLIT_RETURN_IF_ERROR(attention.Weights(h, 0, attention.tokens, width, tables.back().data()));
    }
    for (size_t t = 0; t < attention.tokens; ++t) {
      const float *q = attention.Query(t), *out = attention.Output(t);
      const SlotInterval sees = attention.Sees(t);
      Seen seen{attention.index,
                {q, q + spec.heads * spec.key_dim},
                {out, out + spec.heads * spec.value_dim},
                sees.first,
                sees.last,
                {}};
      for (const auto& table : tables) {
        const auto row = table.begin() + static_cast<std::ptrdiff_t>(t * width);
        seen.weights.emplace_back(row, row + static_cast<std::ptrdiff_t>(width));
      }
      const size_t slot = static_cast<size_t>(attention.first_slot) + t;
      rows.resize(std::max(rows.size(), slot + 1));
      rows[slot].push_back(std::move(seen));
    }
    return Status();
  }
  std::vector<std::vector<Seen>> rows;      // [slots], in the order in which they came
  std::vector<std::vector<float>> streams;  // [layers] [tokens, width]

 private:
  const AttentionModel& model_;
  bool weights_;
  size_t wanted_;
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

std::vector<TappedLayer> LayersOf(const AttentionModel& model, const AttentionModel::Run& run) {
  auto pool = ThreadPool::Create({.threads = 1});
  auto plan = model.MakePlan(pool->get(), run);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  const auto layers = (*plan)->attention_layers();
  return {layers.begin(), layers.end()};
}

TEST(StepTap, QueriesMasksAndOutputsAreTheKernels) {
  for (const AttentionLayer& layer : {AttentionLayer{Spec(0, 0), {.sees = Causal}}, Decorated(), Chunked()}) {
    const AttentionModel model({layer}, 5);
    Watcher watcher(model);
    const std::vector<float> outputs = model.Outputs({{kTokens}}, {.threads = 3, .chunk = 37, .tap = &watcher});
    ExpectSeen(model, watcher);
    // The fixture's head is the identity and there is one layer, so logits are its outputs, and so is the stream behind it.
    for (size_t t = 0; t < kTokens; ++t) {
      ASSERT_EQ(watcher.rows[t].size(), 1u);
      const auto row = outputs.begin() + static_cast<std::ptrdiff_t>(t * model.width());
      ASSERT_TRUE(std::equal(watcher.rows[t][0].out.begin(), watcher.rows[t][0].out.end(), row)) << "token " << t;
    }
    ASSERT_EQ(watcher.streams.size(), 1u);
    EXPECT_EQ(watcher.streams[0], outputs);
  }
}

TEST(StepTap, ChangesNoBit) {
  const AttentionModel model({Decorated(), {Spec(0, 0), {.sees = Causal}}}, 6);
  Watcher watcher(model, true);
  AttentionModel::Run plain{.threads = 2, .chunk = 64}, watched = plain;
  watched.tap = &watcher;
  EXPECT_EQ(model.Outputs({{kTokens}}, watched), model.Outputs({{kTokens}}, plain));
  const std::vector<TappedLayer> layers = LayersOf(model, plain);
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_NE(layers[0].group, layers[1].group) << "layers of different windows share no pages";
}

TEST(StepTap, OnlyWantedLayersAreTaken) {
  const AttentionModel model({Chunked(), {Spec(0, 0), {.sees = Causal}}}, 7);
  Watcher watcher(model, false, 1);
  model.Outputs({{kTokens}}, {.chunk = 50, .tap = &watcher});
  ASSERT_EQ(watcher.rows.size(), kTokens);
  for (const auto& row : watcher.rows) {
    ASSERT_EQ(row.size(), 1u);
    EXPECT_EQ(row[0].index, 1u);
  }
  ASSERT_EQ(watcher.streams.size(), 2u);
  EXPECT_NE(watcher.streams[0], watcher.streams[1]);
}

// Sinks of sparse attention come beside the interval, rounded up to tiles.
TEST(StepTap, SparseWindowsAreWhatTheKernelSees) {
  const AttentionModel model({{Spec(0, 0), {.sees = Causal}}}, 8);
  Watcher watcher(model, true);
  const AttentionModel::Run run{.chunk = 64, .sparse = {.window = 8, .sinks = 4}, .tap = &watcher};
  model.Outputs({{kTokens}}, run);
  EXPECT_EQ(LayersOf(model, run)[0].sink_slots, static_cast<int64_t>(kAttentionTile));
  const Seen& last = watcher.rows[kTokens - 1][0];
  EXPECT_EQ(last.first, static_cast<int64_t>(kTokens) - 8);
  EXPECT_EQ(last.last, static_cast<int64_t>(kTokens));
  for (size_t j = 0; j < kTokens; ++j) {
    const bool sees = j < kAttentionTile || j + 8 >= kTokens;
    EXPECT_EQ(last.weights[0][j] > 0, sees) << j;
  }
}

// --- weights

AttentionLayer Capped() {
  AttentionSpec spec = Spec(0, 0);
  spec.softcap = 2;
  return {spec, {.sees = Causal}};
}
// ALiBi with four heads has the paper's slopes, times `scale`; no rotation.
AttentionLayer Biased(float scale) {
  AttentionSpec spec = Spec(0, 0);
  spec.heads = 4, spec.rope = {}, spec.alibi_max_bias = 8, spec.alibi_scale = scale;
  const double slope = double{scale} / 4;
  return {spec, {.sees = Causal, .slopes = {slope, slope / 4, slope / 16, slope / 64}}};
}
AttentionLayer WithSinks() {
  AttentionLayer layer = Decorated();
  layer.spec.q_norm = layer.spec.k_norm = kNoWeight;
  return layer;
}

// Softmax of the formula for one head of a token, in double precision: values that are rows of the identity bring it out.
std::vector<double> FormulaRow(const AttentionModel& model, size_t head, size_t token) {
  const AttentionLayer& layer = model.layers()[0];
  const AttentionSpec& s = layer.spec;
  reference::AttentionRule rule{
      .heads = 1, .kv_heads = 1, .key_dim = s.key_dim, .value_dim = kTokens, .scale = double{s.scale}};
  rule.softcap = double{s.softcap};
  rule.sees = layer.rule.sees;
  if (!layer.rule.slopes.empty()) rule.slopes = {layer.rule.slopes[head]};
  const auto part = [&](const std::vector<double>& all, size_t h) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(h * s.key_dim);
    return std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(s.key_dim));
  };
  std::vector<std::vector<double>> keys, ones;
  std::vector<int64_t> places;
  for (size_t j = 0; j < kTokens; ++j) {
    places.push_back(static_cast<int64_t>(j));
    keys.push_back(part(model.Key(0, AttentionModel::Token(j), places.back()), head / (s.heads / s.kv_heads)));
    ones.emplace_back(kTokens);
    ones.back()[j] = 1;
  }
  const std::vector<double> q = part(model.Query(0, AttentionModel::Token(token), places[token]), head);
  return reference::Attend(rule, q, places[token], keys, ones, places);
}

// Scores are sums of 24 products of elements up to 2, times 0.3: at most 29. q and k are off by a few units of their last place each, and
// every product and sum rounds: some 24 + 8 roundings of 29, twice over in a softmax.
constexpr double kWeightBound = 2 * 32 * 29 * 0x1p-24;

TEST(StepTap, WeightsAreTheFormula) {
  for (const AttentionLayer& layer :
       {AttentionLayer{Spec(0, 0), {.sees = Causal}}, AttentionLayer{Spec(40, 0), WithSinks().rule}, Chunked(),
        Capped(), Biased(1), Biased(0.25f)}) {
    const AttentionModel model({layer}, 9);
    Watcher watcher(model, true);
    model.Outputs({{kTokens}}, {.threads = 2, .chunk = 61, .tap = &watcher});
    for (size_t t = 0; t < kTokens; t += 7) {
      const Seen& seen = watcher.rows[t][0];
      for (size_t h = 0; h < layer.spec.heads; ++h) {
        const std::vector<double> expected = FormulaRow(model, h, t);
        double sum = 0;
        for (size_t j = 0; j < seen.weights[h].size(); ++j) {
          const float weight = seen.weights[h][j];
          sum += double{weight};
          if (j < static_cast<size_t>(seen.first) || j >= static_cast<size_t>(seen.last)) {
            ASSERT_EQ(weight, 0.0f) << "token " << t << " key " << j;
          }
          ASSERT_NEAR(weight, expected[j], kWeightBound) << "token " << t << " head " << h << " key " << j;
        }
        ASSERT_NEAR(sum, 1, 1e-6);
      }
    }
  }
}

// Tokens of the text as it stands, from slot 0 on: kTokens, or what is left after a drop and what came then.
double LargestLoss(const AttentionModel& model, const Seen& seen, const std::vector<int32_t>& text) {
  const AttentionSpec& s = model.layers()[seen.index].spec;
  const size_t keys_of = model.layers()[seen.index].rule.keys_of;
  double largest = 0;
  for (size_t h = 0; h < s.heads; ++h) {
    double error = 0, whole = 0;
    for (size_t c = 0; c < s.value_dim; ++c) {
      double sum = 0, magnitude = 0;
      for (size_t j = 0; j < seen.weights[h].size(); ++j) {
        const std::vector<double> v = model.Value(keys_of == SIZE_MAX ? seen.index : keys_of, text[j]);
        const double term = double{seen.weights[h][j]} * v[h / (s.heads / s.kv_heads) * s.value_dim + c];
        sum += term, magnitude += std::abs(term);
      }
      error += std::pow(sum - double{seen.out[h * s.value_dim + c]}, 2);
      whole += magnitude * magnitude;
    }
    largest = std::max(largest, std::sqrt(error / whole));
  }
  return largest;
}

// Times the values they give the fused kernel's outputs, by its own bound for such scores (docs/attention.md): also with learned sinks,
// over another layer's keys, and after a shift, whose queries are turned.
TEST(StepTap, WeightsTimesValuesAreTheOutputs) {
  AttentionLayer shared{Spec(0, 0), {.sees = Causal, .keys_of = 0}};
  constexpr size_t kFirst = kAttentionTile, kLast = 2 * kAttentionTile;
  const std::vector<AttentionAct> acts = {{.append = kLast + 9, .first = kFirst, .last = kLast}, {.append = 12}};
  for (const std::vector<AttentionLayer>& layers : std::vector<std::vector<AttentionLayer>>{
           {{Spec(0, 0), {.sees = Causal}}, shared}, {WithSinks()}, {Decorated()}, {Capped()}, {Biased(0.25f)}}) {
    const AttentionModel model(layers, 10);
    Watcher watcher(model, true);
    model.Outputs(acts, {.threads = 2, .chunk = 64, .tap = &watcher});
    std::vector<int32_t> text;
    for (size_t i = 0; i < kLast + 21; ++i) {
      if (i < kFirst || i >= kLast) text.push_back(AttentionModel::Token(i));
    }
    ASSERT_GE(watcher.rows.size(), text.size());
    for (size_t slot = text.size() - 12; slot < text.size(); slot += 5) {
      // The last ones that came to this slot, after the drop.
      const auto& rows = watcher.rows[slot];
      for (size_t l = 0; l < layers.size(); ++l) {
        EXPECT_LT(LargestLoss(model, rows[rows.size() - layers.size() + l], text), 4e-6) << "slot " << slot;
      }
    }
  }
}

// The kernel passes over the slots of a page that is not there (a null in the table), and so nobody sees them.
TEST(StepTap, SlotsOfMissingPagesHaveNoWeight) {
  const AttentionModel model({{Spec(0, 0), {.sees = Causal}}}, 13);
  auto pool = ThreadPool::Create({.threads = 2});
  auto plan = model.MakePlan(pool->get(), {});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  auto pages = PagePool::Create((*plan)->cache_groups(), 8, {.share_prefixes = false});
  Sequence sequence(pages->get());
  ASSERT_TRUE(sequence.Reserve(kTokens).ok());
  std::vector<int32_t> text;
  for (size_t i = 0; i < kTokens; ++i) text.push_back(AttentionModel::Token(i));
  StepSpan span{};
  span.tokens = std::span(text).first(kTokens - 1);
  span.pages = sequence.pages();
  span.outputs = Outputs::kNone;
  ASSERT_TRUE((*plan)->Run({&span, 1}, nullptr).ok());

  std::vector<uint8_t*> table(sequence.pages()[0], sequence.pages()[0] + CeilDiv(kTokens, kAttentionTile));
  table[0] = nullptr;
  uint8_t* const* const tables[] = {table.data()};
  Watcher watcher(model, true);
  span.tokens = std::span(text).last(1);
  span.pages = tables;
  span.first_slot = kTokens - 1;
  span.tap = &watcher;
  ASSERT_TRUE((*plan)->Run({&span, 1}, nullptr).ok());
  const Seen& seen = watcher.rows[kTokens - 1][0];
  for (const std::vector<float>& weights : seen.weights) {
    for (size_t j = 0; j < kTokens; ++j) ASSERT_EQ(weights[j] > 0, j >= kAttentionTile) << j;
  }
  EXPECT_LT(LargestLoss(model, seen, text), 4e-6);
}

TEST(StepTap, WeightsAreTheSameForThreadsAndChunks) {
  const AttentionModel model({Decorated()}, 11);
  Watcher one(model, true), other(model, true);
  model.Outputs({{kTokens}}, {.threads = 1, .tap = &one});
  model.Outputs({{kTokens}}, {.threads = 3, .page_tokens = 2 * kAttentionTile, .chunk = 23, .tap = &other});
  for (size_t t = 0; t < kTokens; ++t) {
    const auto &a = one.rows[t][0].weights, &b = other.rows[t][0].weights;
    for (size_t h = 0; h < a.size(); ++h) {
      ASSERT_EQ(std::vector<float>(a[h].begin(), a[h].begin() + static_cast<std::ptrdiff_t>(t + 1)),
                std::vector<float>(b[h].begin(), b[h].begin() + static_cast<std::ptrdiff_t>(t + 1)))
          << "token " << t;
    }
  }
}

// A learned sink takes its share: rows sum to less, by exp(sink) over all of the row's.
TEST(StepTap, ALearnedSinkTakesItsShare) {
  const AttentionModel model({WithSinks()}, 12);
  const AttentionModel without({{Spec(40, 0), WithSinks().rule}}, 12);
  Watcher watcher(model, true), plain(without, true);
  model.Outputs({{kTokens}}, {.tap = &watcher});
  without.Outputs({{kTokens}}, {.tap = &plain});
  double most = 0;
  for (size_t h = 0; h < 6; ++h) {
    const auto &row = watcher.rows[70][0].weights[h], &whole = plain.rows[70][0].weights[h];
    double sum = 0;
    for (float weight : row) sum += double{weight};
    EXPECT_LT(sum, 1 - 1e-6);
    EXPECT_GT(sum, 0);
    most = std::max(most, 1 - sum);
    for (size_t j = 0; j < row.size(); ++j) EXPECT_NEAR(row[j], whole[j] * sum, 1e-6);
  }
  EXPECT_GT(most, 0.01);
}

}  // namespace
}  // namespace moonlit::test
