// SPDX-License-Identifier: Apache-2.0
// Every kind of attention layer that a graph can ask for: against the judge in double precision, before and after context shifts,
// and the same bits for any threads, chunks and pages.
#include <gtest/gtest.h>
#include <gmock/gmock.h>

#include <cmath>

#include "tests/exec/attention_fixture.h"
#include "tests/models/loaded_model.h"
#include "tests/support/slowed.h"

namespace moonlit::test {
namespace {

using testing::HasSubstr;

constexpr WeightId kWanted = 0;                // AttentionModel gives the layer its own
constexpr int64_t kUnit = 2 * kAttentionTile;  // of drops

AttentionSpec Spec() {
  AttentionSpec spec;
  spec.heads = 6;
  spec.kv_heads = 2;
  spec.key_dim = 24;
  spec.value_dim = 20;
  spec.scale = 0.3f;
  spec.norm_eps = 1e-5f;
  return spec;
}

AttentionSpec Rotated(RopePairs pairs, size_t dims) {
  AttentionSpec spec = Spec();
  spec.rope.pairs = pairs;
  spec.rope.dims = dims;
  spec.rope.base = 500;
  return spec;
}

bool Causal(int64_t i, int64_t j) { return j <= i; }

LayerRule Window(int64_t w) {
  return {.sees = [w](int64_t i, int64_t j) { return 0 <= i - j && i - j < w; }};
}

template <class Change>
AttentionLayer Layer(AttentionSpec spec, LayerRule rule, Change change) {
  change(spec);
  return {spec, std::move(rule)};
}
AttentionLayer Plain(const AttentionSpec& spec) { return {spec, {.sees = Causal}}; }

struct Case {
  const char* name;
  std::vector<AttentionLayer> layers;
  std::vector<AttentionAct> acts;
};

// Rows that the judge looks at: all, or one of so many where double precision is an emulator's (of all windows, tiles and segments
// one still falls into each).
constexpr size_t kEvery = kSlowed ? 37 : 1;

// Long enough for three segments (two); then the usual shift, and one more in the middle.
constexpr size_t kLong = kSlowed ? 600 : 1150;
std::vector<AttentionAct> Long() { return {{kLong}}; }
std::vector<AttentionAct> Shifted() {
  if (kSlowed) return {{5 * kUnit + 5, 0, kUnit, 2 * kUnit}, {kUnit + 9, 0, 2 * kUnit, 3 * kUnit}, {70}};
  return {{5 * kUnit + 5, 0, kUnit, 2 * kUnit},
          {2 * kUnit, 0, kUnit, 3 * kUnit},
          {kUnit + 9, 0, 3 * kUnit, 4 * kUnit},
          {kAttentionSegment}};
}

AttentionLayer Windowed(size_t w) {
  return Layer(Rotated(RopePairs::kHalves, 24), Window(static_cast<int64_t>(w)), [&](auto& s) { s.window = w; });
}
AttentionLayer Chunked(size_t c) {
  const auto size = static_cast<int64_t>(c);
  return Layer(Rotated(RopePairs::kNeighbours, 24),
               {.sees = [size](int64_t i, int64_t j) { return j <= i && i / size == j / size; }},
               [&](auto& s) { s.chunk = c; });
}
AttentionLayer Softcapped() {
  return Layer(Rotated(RopePairs::kHalves, 24), {.sees = Causal}, [](auto& s) { s.softcap = 1.5f; });
}
// Six heads: four slopes of four, two that lie between them.
const std::vector<double> kSlopesOfSix = {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125};
AttentionLayer Alibi() {
  return Layer(Spec(), {.sees = Causal, .slopes = kSlopesOfSix}, [](auto& s) { s.alibi_max_bias = 8; });
}
AttentionLayer Sinks() {
  return Layer(Rotated(RopePairs::kHalves, 24), Window(100), [](auto& s) {
    s.sinks = kWanted;
    s.window = 100;
  });
}
AttentionLayer Tempered() {
  return Layer(
      Spec(),
      {.sees = Causal,
       .query_factor =
           [](int64_t place) { return 1 + 0.7 * std::log(1 + std::floor((static_cast<double>(place) + 1) / 128)); }},
      [](auto& s) { s.temperature = {.floor = 128, .scale = 0.7, .offset = 1}; });
}
AttentionLayer HeadNorms(NormKind kind) {
  return Layer(Rotated(RopePairs::kHalves, 16), {.sees = Causal}, [&](auto& s) {
    s.q_norm = s.k_norm = kWanted;
    s.norm_kind = kind;
    s.value_norm = true;
  });
}
AttentionLayer PlainNorms() {
  return Layer(Rotated(RopePairs::kNeighbours, 24), {.sees = Causal}, [](auto& s) { s.plain_norms = true; });
}
AttentionLayer Sharing(size_t layer, AttentionSpec spec, LayerRule rule) {
  rule.keys_of = layer;
  return {spec, std::move(rule)};
}
std::vector<AttentionLayer> Shared() {
  const AttentionLayer windowed = Windowed(70), whole = Plain(Rotated(RopePairs::kHalves, 12));
  return {windowed, whole, Sharing(0, windowed.spec, windowed.rule), Sharing(1, whole.spec, whole.rule)};
}
std::vector<AttentionLayer> Mixed() {  // as llama 4: chunks that rotate, then a layer that sees all and does not
  return {Chunked(192), Tempered(), Softcapped()};
}

std::vector<Case> Cases() {
  return {{"plain", {Plain(Rotated(RopePairs::kNeighbours, 24))}, Long()},
          {"plain_shifted", {Plain(Rotated(RopePairs::kHalves, 16))}, Shifted()},
          {"not_rotated", {Plain(Spec())}, Long()},
          {"not_rotated_shifted", {Plain(Spec())}, Shifted()},
          {"window_1", {Windowed(1)}, {{300}}},
          {"window_4", {Windowed(4)}, {{300}}},
          {"window_tile", {Windowed(kAttentionTile)}, Long()},
          {"window_tile_and_one", {Windowed(kAttentionTile + 1)}, Long()},
          {"window_segment", {Windowed(kAttentionSegment)}, Long()},
          {"window_beyond", {Windowed(5000)}, Long()},
          {"window_shifted", {Windowed(150)}, Shifted()},
          {"chunks_8", {Chunked(8)}, {{300}}},
          {"chunks_100", {Chunked(100)}, Long()},
          {"chunks_600_shifted", {Chunked(600)}, Shifted()},
          {"chunks_100_shifted", {Chunked(100)}, Shifted()},
          {"softcap", {Softcapped()}, Long()},
          {"alibi", {Alibi()}, Long()},
          {"alibi_shifted", {Alibi()}, Shifted()},
          {"sinks", {Sinks()}, Long()},
          {"sinks_shifted", {Sinks()}, Shifted()},
          {"temperature", {Tempered()}, Long()},
          {"temperature_shifted", {Tempered()}, Shifted()},
          {"rms_norms", {HeadNorms(NormKind::kRms)}, {{300}}},
          {"layer_norms", {HeadNorms(NormKind::kLayer)}, {{300}}},
          {"plain_norms", {PlainNorms()}, {{300}}},
          {"prefix", {Plain(Rotated(RopePairs::kHalves, 24))}, {{700, 333}}},
          {"prefix_of_all", {Plain(Rotated(RopePairs::kHalves, 24))}, {{130, 130}}},
          {"prefix_and_window", {Windowed(50)}, {{400, 100}}},
          {"prefix_inside", {Windowed(50)}, {{200}, {400, 111}, {100, 70}}},
          {"shared_keys", Shared(), Long()},
          {"shared_keys_shifted", Shared(), Shifted()},
          {"mixed", Mixed(), Long()},
          {"mixed_shifted", Mixed(), Shifted()}};
}

class AttentionLayers : public testing::TestWithParam<Case> {};

// docs/design.md: 2e-6 (4e-6) for scores of standard deviation 1 (3) and an F32 cache; here it is below 3.
TEST_P(AttentionLayers, AgreeWithTheJudge) {
  const AttentionModel model(GetParam().layers, 7);
  const std::vector<double> expected = model.Expected(GetParam().acts, kEvery);
  for (size_t threads : {1, 3}) {
    if (kSlowed && threads == 1) continue;
    const std::vector<float> out = model.Outputs(GetParam().acts, {.threads = threads});
    EXPECT_LT(LargestError(out, expected, model.width(), kEvery), 4e-6) << threads;
  }
}

TEST_P(AttentionLayers, HaveTheSameBitsForAnyThreadsChunksAndPages) {
  const AttentionModel model(GetParam().layers, 7);
  for (CacheType cache : {CacheType::kF32, CacheType::kBF16, CacheType::kQ8_0}) {
    if (kSlowed && cache != (GetParam().acts.size() > 1 ? CacheType::kQ8_0 : CacheType::kF32)) continue;
    const std::vector<float> expected = model.Outputs(GetParam().acts, {.cache = cache});
    EXPECT_FALSE(expected.empty());
    for (size_t threads : {1, 3}) {
      for (size_t chunk : {1, 7, 130}) {
        if (chunk == 1 && (cache != CacheType::kF32 || threads == 1)) continue;
        if (kSlowed && (threads == 1 || chunk != (cache == CacheType::kQ8_0 ? 130 : 7))) continue;
        const size_t page_tokens = chunk == 7 ? kAttentionTile : 2 * kAttentionTile;
        const AttentionModel::Run run{threads, page_tokens, chunk, cache};
        EXPECT_TRUE(SameBits(model.Outputs(GetParam().acts, run), expected))
            << threads << " threads, chunks of " << chunk << ", " << CacheTypeName(cache);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, AttentionLayers, testing::ValuesIn(Cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// Nothing of a case is a matter of course: the judge of plain attention does not agree with it.
TEST(AttentionLayersTest, EveryKindMatters) {
  if (kSlowed) GTEST_SKIP() << "Checks the cases, not the processor: builds at full speed do.";
  for (const Case& c : Cases()) {
    if (std::string(c.name).starts_with("plain") || std::string(c.name).starts_with("not_rotated") ||
        std::string(c.name) == "window_beyond") {
      continue;
    }
    Case plain = c;
    const bool by_prefix = std::string(c.name).starts_with("prefix");
    for (AttentionLayer& layer : plain.layers) {
      if (by_prefix) continue;
      AttentionSpec spec = Spec();
      spec.rope = layer.spec.rope;
      layer = Plain(spec);
    }
    for (AttentionAct& act : plain.acts) act.prefix = 0;
    const std::vector<float> out = AttentionModel(c.layers, 7).Outputs(c.acts, {});
    EXPECT_GT(LargestError(out, AttentionModel(plain.layers, 7).Expected(plain.acts, kEvery), 120, kEvery), 1e-2)
        << c.name;
  }
}

// A window of W has the token itself and W - 1 before it, in prefill and in decode. Keys are equal and values
// are powers of two, so the output tells which were seen.
TEST(AttentionLayersTest, AWindowOfFourSeesFour) {
  AttentionSpec spec = Spec();
  spec.heads = spec.kv_heads = spec.key_dim = spec.value_dim = 1;
  spec.window = 4;
  AttentionModel model({{spec, Window(4)}}, 1);
  std::vector<float> values(kAttentionIds);
  for (size_t i = 0; i < 10; ++i) values[static_cast<size_t>(AttentionModel::Token(i))] = std::ldexp(1.0f, int(i));
  model.source().Add("k0", Format::kF32, {kAttentionIds, 1}, std::vector<float>(kAttentionIds));
  model.source().Add("v0", Format::kF32, {kAttentionIds, 1}, values);
  const float seen[] = {1, 3, 7, 15, 30, 60, 120, 240, 480, 960};
  for (size_t chunk : {1, 3, 4, 5, 10}) {
    const std::vector<float> out = model.Outputs({{10}}, {.chunk = chunk});
    for (size_t i = 0; i < 10; ++i) {
      EXPECT_NEAR(out[i] * std::min<float>(4, static_cast<float>(i + 1)), seen[i], 1e-6f * seen[i])
          << i << " " << chunk;
    }
  }
}

// Of n scores 0 and values 1, with a sink s, the output is n / (n + exp(s)): for each head its own sink, however
// many rows go together.
TEST(AttentionLayersTest, SinksJoinTheDenominatorAlone) {
  for (size_t window : {size_t{0}, size_t{40}}) {
    AttentionSpec spec = Spec();
    spec.sinks = kWanted;
    spec.window = window;
    AttentionModel model({{spec, {}}}, 1);
    const std::vector<float> sinks = {-INFINITY, 0, 5, 90, -3, 1};
    model.source().Add("sinks0", Format::kF32, {6}, sinks);
    model.source().Add("q0", Format::kF32, {kAttentionIds, 144}, std::vector<float>(kAttentionIds * 144));
    model.source().Add("v0", Format::kF32, {kAttentionIds, 40}, std::vector<float>(kAttentionIds * 40, 1));
    const auto expect = [&](const AttentionModel::Run& run) {
      const std::vector<float> out = model.Outputs({{kLong}}, run);
      ASSERT_EQ(out.size(), kLong * 120);
      for (size_t i = 0; i < kLong; ++i) {
        const double n = static_cast<double>(window == 0 ? i + 1 : std::min(i + 1, window));
        for (size_t h = 0; h < 6; ++h) {
          const double expected = n / (n + std::exp(double{sinks[h]}));
          // Weights below the normal floats may become 0.
          ASSERT_NEAR(out[i * 120 + h * 20 + 19], expected, 2e-6 * expected + n * 0x1p-126)
              << i << " " << h << " " << window;
        }
      }
    };
    for (size_t threads : {1, 3}) {
      if (kSlowed && threads == 1) continue;
      for (size_t chunk : {size_t{1}, size_t{7}, kLong}) expect({.threads = threads, .chunk = chunk});
      expect({.threads = threads, .chunk = 1, .cache = CacheType::kF16});
    }
  }
}

// In one step whose tokens all see each other, with a window that goes both ways.
TEST(EncoderAttention, SeesTheWholeText) {
  for (size_t window : {0, 1, 30}) {
    AttentionSpec spec = Rotated(RopePairs::kHalves, 24);
    spec.bidirectional = true;
    spec.window = window;
    const auto w = static_cast<int64_t>(window);
    const AttentionModel model({{spec, {.sees = [w](int64_t i, int64_t j) { return w == 0 || std::abs(i - j) < w; }}}},
                               3);
    for (size_t tokens : {1, 63, 64, 65, 700}) {
      const size_t every = tokens == 700 ? kEvery : 1;
      const std::vector<float> one = model.Outputs({{tokens}}, {.chunk = tokens});
      EXPECT_LT(LargestError(one, model.Expected({{tokens}}, every), model.width(), every), 4e-6) << tokens;
      EXPECT_TRUE(SameBits(model.Outputs({{tokens}}, {.threads = 3, .page_tokens = 128, .chunk = tokens}), one));
    }
  }
}

TEST(EncoderAttention, RefusesATextInPieces) {
  AttentionSpec spec = Spec();
  spec.bidirectional = true;
  const AttentionModel model({{spec, {}}}, 3);
  auto pool = ThreadPool::Create({.threads = 1});
  auto plan = model.MakePlan(pool->get(), {.chunk = 8});
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE((*plan)->whole_sequences());
  auto pages = PagePool::Create((*plan)->cache_groups(), 4);
  Sequence sequence(pages->get());
  const std::vector<int32_t> tokens(4);
  ASSERT_TRUE(sequence.Reserve(8).ok());
  StepSpan span{.tokens = tokens, .pages = sequence.pages(), .first_slot = 0, .outputs = Outputs::kNone};
  EXPECT_TRUE((*plan)->Run({&span, 1}, nullptr).ok());
  span.first_slot = 4;
  const Status status = (*plan)->Run({&span, 1}, nullptr);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("see each other in one step alone"));
}

TEST(PrefixTest, LongerThanItsSpanIsRefused) {
  const AttentionModel model({Plain(Spec())}, 3);
  auto pool = ThreadPool::Create({.threads = 1});
  auto plan = model.MakePlan(pool->get(), {.chunk = 8});
  ASSERT_TRUE(plan.ok());
  EXPECT_FALSE((*plan)->whole_sequences());
  auto pages = PagePool::Create((*plan)->cache_groups(), 4);
  Sequence sequence(pages->get());
  const std::vector<int32_t> tokens(4);
  ASSERT_TRUE(sequence.Reserve(8).ok());
  StepSpan span{.tokens = tokens, .pages = sequence.pages(), .first_slot = 0, .outputs = Outputs::kNone};
  for (size_t prefix : {0, 4, 5}) {
    span.prefix = prefix;
    EXPECT_EQ((*plan)->Run({&span, 1}, nullptr).code(), prefix == 5 ? Code::kInvalidArgument : Code::kOk);
  }
}

// Layers that read an earlier layer's cache have none of their own, and what follows the last write is for wanted rows alone.
TEST(SharedKeys, TakeNoCacheAndNoPrefill) {
  const AttentionModel model(Shared(), 3);
  auto pool = ThreadPool::Create({.threads = 1});
  auto plan = model.MakePlan(pool->get(), {.chunk = 64});
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ((*plan)->cache_groups().size(), 2u);  // the windowed layer's, the other's
  for (const PageLayout& layout : (*plan)->cache_groups()) EXPECT_EQ(layout.layers, 1u);
}

TEST(AlibiSlopes, AreThePapers) {
  for (size_t h = 0; h < 8; ++h) EXPECT_EQ(AlibiSlope(8, 8, h), std::ldexp(1.0f, -1 - static_cast<int>(h)));
  for (size_t h = 0; h < 6; ++h) EXPECT_EQ(AlibiSlope(8, 6, h), static_cast<float>(kSlopesOfSix[h]));
  // mpt's code: slopes of the next power of two; every second one, then the others, as many as there are heads.
  for (size_t heads : {1, 3, 12, 16, 20, 71}) {
    size_t next = 1;
    while (next < heads) next *= 2;
    std::vector<double> all, ordered;
    for (size_t i = 1; i <= next; ++i)
      all.push_back(std::exp2(-6.5 * static_cast<double>(i) / static_cast<double>(next)));
    if (next == heads) {
      ordered = all;
    } else {
      for (size_t i = 1; i < next; i += 2) ordered.push_back(all[i]);
      for (size_t i = 0; i < next; i += 2) ordered.push_back(all[i]);
    }
    for (size_t h = 0; h < heads; ++h) {
      EXPECT_NEAR(AlibiSlope(6.5f, heads, h), ordered[h], 1e-7 * ordered[h]) << h << " of " << heads;
    }
  }
}

}  // namespace
}  // namespace moonlit::test
