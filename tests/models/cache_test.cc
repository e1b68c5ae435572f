// SPDX-License-Identifier: Apache-2.0
// What may be done to the cache between steps, under real models. A taken or restored beginning gives the bits of a computed
// one. After blocks were dropped, logits are those of a scalar pass whose tokens see what was there when they came, at the
// places where it stood then; and the same bits for any threads, chunks, pages and batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/cache/session_file.h"
#include "tests/models/loaded_model.h"
#include "tests/reference/forward.h"
#include "tests/support/slowed.h"

namespace moonlit::test {
namespace {

std::vector<int32_t> Text(size_t count, size_t seed = 1) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>((seed * 131 + i * 71) % 320));
  return tokens;
}

// Where time is short, blocks of the real size are moved under one fixture of float arithmetic and one of integers;
// small_tiles_test, this same file with small blocks, has all of them.
constexpr char kSeeSmallTiles[] = "small_tiles_test has it";
bool LeftToSmallTiles(const std::string& fixture, CacheType type) {
  const bool is_kept = (fixture == "llama" && type == CacheType::kF32) || type == CacheType::kQ8_0;
  return kSlowed && kAttentionTile > 16 && !is_kept;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Text and drops: read `append` tokens, then drop slots [first, last), in units of two tiles.
struct Act {
  size_t append, first, last;
};
constexpr size_t kUnit = 2 * kAttentionTile;
// The usual shift (a kept beginning), again, one in the middle of what is left, one of the very beginning.
constexpr Act kActs[] = {{4 * kUnit + 5, 1, 2}, {kUnit, 1, 3}, {2 * kUnit + 7, 2, 3}, {3, 0, 1}, {kUnit + 1, 0, 0}};

std::vector<int32_t> WholeText() {
  size_t count = 0;
  for (const Act& act : kActs) count += act.append;
  return Text(count);
}

// Reads and drops as kActs says; logits of all tokens.
std::vector<float> RunActs(LoadedModel& model, Sequence& sequence, size_t chunk) {
  const std::vector<int32_t> text = WholeText();
  std::vector<float> logits;
  size_t at = 0;
  for (const Act& act : kActs) {
    const size_t end = at + act.append;
    for (; at < end; at += std::min(chunk, end - at)) {
      const std::vector<float> rows = model.Step(sequence, std::span(text).subspan(at, std::min(chunk, end - at)));
      logits.insert(logits.end(), rows.begin(), rows.end());
    }
    sequence.Drop(static_cast<int64_t>(act.first * kUnit), static_cast<int64_t>(act.last * kUnit));
  }
  return logits;
}

// places[t][j] for reference::Forward, from a list of the tokens that are there.
std::vector<std::vector<int64_t>> PlacesOfActs() {
  std::vector<std::vector<int64_t>> places;
  std::vector<size_t> present;
  for (const Act& act : kActs) {
    for (size_t i = 0; i < act.append; ++i) {
      present.push_back(places.size());
      std::vector<int64_t> row(places.size() + 1, -1);
      for (size_t slot = 0; slot < present.size(); ++slot) row[present[slot]] = static_cast<int64_t>(slot);
      places.push_back(std::move(row));
    }
    present.erase(present.begin() + static_cast<std::ptrdiff_t>(act.first * kUnit),
                  present.begin() + static_cast<std::ptrdiff_t>(act.last * kUnit));
  }
  return places;
}

double LargestDifference(const std::vector<float>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(double{a[i]} - b[i]));
  return largest;
}

// Both kinds of pairs, head norms, divided frequencies.
class DroppedBlocks : public testing::TestWithParam<const char*> {};

TEST_P(DroppedBlocks, AgreeWithAScalarPassOfRebasedPositions) {
  if (LeftToSmallTiles(GetParam(), CacheType::kF32)) GTEST_SKIP() << kSeeSmallTiles;
  LoadedModel model(GetParam(), {.threads = 3, .page_tokens = kUnit, .max_rows = 512});
  Sequence sequence(&model.pages());
  const std::vector<float> logits = RunActs(model, sequence, 512);
  const auto places = PlacesOfActs();
  const auto difference = [&](const reference::Places& of) {
    const auto expected = reference::Forward(model.source().metadata(), model.source(), WholeText(), nullptr, of);
    EXPECT_TRUE(expected.ok()) << expected.status().ToString();
    return LargestDifference(logits, expected.value());
  };
  // tests/models/golden_test.cc has 1e-4 for such weights; a turned query adds less than the first rotation.
  EXPECT_LT(difference([&](size_t query, size_t key) { return places[query][key]; }), 2e-4);
  if (kSlowed) return;
  // It is no matter of course: masked, but every token where it stood at first.
  const auto unmoved = [&](size_t query, size_t key) {
    return places[query][key] < 0 ? -1 : static_cast<int64_t>(key);
  };
  EXPECT_GT(difference(unmoved), 1e-2);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, DroppedBlocks, testing::Values("llama", "qwen3", "llama3-rope"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

struct CacheCase {
  const char* fixture;
  CacheType cache;
};
class CacheBits : public testing::TestWithParam<CacheCase> {
 protected:
  LoadedModel Model(size_t threads, size_t page_tokens, bool share = false) const {
    return LoadedModel(GetParam().fixture, {.threads = threads,
                                            .page_tokens = page_tokens,
                                            .cache = GetParam().cache,
                                            .max_rows = 512,
                                            .share_prefixes = share});
  }
};

TEST_P(CacheBits, DroppedBlocksGiveTheSameBitsHoweverTheyAreRead) {
  if (LeftToSmallTiles(GetParam().fixture, GetParam().cache)) GTEST_SKIP() << kSeeSmallTiles;
  LoadedModel first = Model(1, kUnit);
  Sequence expected_sequence(&first.pages());
  const std::vector<float> expected = RunActs(first, expected_sequence, 512);
  struct Way {
    size_t threads, page_tokens, chunk;
  };
  // Where time is short, each value once.
  std::vector<Way> ways = {{1, kAttentionTile, 7}, {3, kAttentionTile, 512}, {3, kUnit, 1}};
  if (!kSlowed) {
    ways = {};
    for (size_t threads : {1, 3}) {
      for (size_t chunk : {512, 7})
        ways.insert(ways.end(), {{threads, kAttentionTile, chunk}, {threads, kUnit, chunk}});
      ways.push_back({threads, kUnit, 1});
    }
  }
  for (const Way& way : ways) {
    LoadedModel model = Model(way.threads, way.page_tokens);
    Sequence sequence(&model.pages());
    EXPECT_TRUE(SameBits(RunActs(model, sequence, way.chunk), expected))
        << way.threads << " threads, pages of " << way.page_tokens << ", chunks of " << way.chunk;
  }
}

TEST_P(CacheBits, DroppedBlocksInABatchGiveTheSameBits) {
  if (LeftToSmallTiles(GetParam().fixture, GetParam().cache)) GTEST_SKIP() << kSeeSmallTiles;
  LoadedModel model = Model(2, kUnit);
  Sequence moved(&model.pages()), plain(&model.pages());
  RunActs(model, moved, 512);
  model.Step(plain, Text(kUnit + 3, 5), Outputs::kNone);
  Sequence moved_alone = moved.Fork(), plain_alone = plain.Fork();
  const std::vector<int32_t> next = Text(9, 7);
  std::vector<StepSpan> spans;
  for (Sequence* sequence : {&plain, &moved}) {
    ASSERT_TRUE(sequence->Reserve(sequence->length() + 9).ok());
    spans.push_back({.tokens = next,
                     .pages = sequence->pages(),
                     .first_slot = sequence->length(),
                     .positions = {},
                     .outputs = Outputs::kAll,
                     .runs = sequence->runs()});
  }
  Collector batch(model.vocab(), 2);
  const Status ran = model.plan().Run(spans, &batch);
  ASSERT_TRUE(ran.ok()) << ran.ToString();
  EXPECT_TRUE(SameBits(model.Step(plain_alone, next), batch.rows[0]));
  EXPECT_TRUE(SameBits(model.Step(moved_alone, next), batch.rows[1]));
}

// Elsewhere the first run differed from the cached one.
TEST_P(CacheBits, ATakenBeginningGivesTheBitsOfAComputedOne) {
  if (LeftToSmallTiles(GetParam().fixture, GetParam().cache)) GTEST_SKIP() << kSeeSmallTiles;
  const std::vector<int32_t> text = Text(3 * kUnit + 5), next = Text(4, 9);
  LoadedModel fresh = Model(2, kUnit);
  Sequence computed(&fresh.pages());
  const std::vector<float> expected = fresh.Step(computed, text, Outputs::kLast);
  const std::vector<float> expected_next = fresh.Step(computed, next);

  LoadedModel model = Model(2, kUnit, true);
  {
    Sequence ended(&model.pages());
    std::vector<int32_t> other = text;
    other[2 * kUnit + 1] ^= 1;
    for (int32_t id : other) model.Step(ended, {&id, 1}, Outputs::kNone);  // in other chunks
  }
  Sequence taken(&model.pages());
  EXPECT_EQ(taken.TakePrefix(std::span(text).first(text.size() - 1)), 2 * kUnit);
  EXPECT_TRUE(SameBits(model.Step(taken, std::span(text).subspan(2 * kUnit), Outputs::kLast), expected));
  EXPECT_TRUE(SameBits(model.Step(taken, next), expected_next));
}

TEST_P(CacheBits, ARestoredSequenceGoesOnWithTheSameBits) {
  if (LeftToSmallTiles(GetParam().fixture, GetParam().cache)) GTEST_SKIP() << kSeeSmallTiles;
  LoadedModel model = Model(2, kUnit);
  Sequence sequence(&model.pages());
  RunActs(model, sequence, 512);
  const SessionFacts facts = {"variant", "model", model.vocab(), 100000};
  std::string bytes;
  ASSERT_TRUE(WriteSession(sequence, facts, [&](const void* data, size_t size) {
                bytes.append(static_cast<const char*>(data), size);
                return Status();
              }).ok());
  const ByteSource source = {"memory", bytes.size(), [&](uint64_t offset, void* out, size_t size) {
                               std::memcpy(out, bytes.data() + offset, size);
                               return Status();
                             }};
  LoadedModel other = Model(3, kUnit);
  auto reader = SessionReader::Open(source, facts, {}, other.pages());
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  auto restored = Sequence::Make(&other.pages(), reader.value().shape());
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  ASSERT_TRUE(reader.value().ReadPages(*restored).ok());
  EXPECT_TRUE(SameBits(other.Step(*restored, Text(6, 4)), model.Step(sequence, Text(6, 4))));
}

INSTANTIATE_TEST_SUITE_P(Caches, CacheBits,
                         testing::Values(CacheCase{"llama", CacheType::kF32}, CacheCase{"qwen3", CacheType::kF16},
                                         CacheCase{"llama-kquant", CacheType::kBF16},
                                         CacheCase{"llama-legacy", CacheType::kQ8_0},
                                         CacheCase{"llama", CacheType::kQ4_0}),
                         [](const auto& info) {
                           std::string name = std::string(info.param.fixture) + "_" + CacheTypeName(info.param.cache);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(StepRuns, ThatDoNotFitAreRefused) {
  LoadedModel model("llama", {.page_tokens = kUnit, .max_rows = 512});
  Sequence sequence(&model.pages());
  model.Step(sequence, Text(kUnit), Outputs::kNone);
  ASSERT_TRUE(sequence.Reserve(kUnit + 1).ok());
  const int32_t token = 1;
  const auto run = [&](std::vector<SlotRun> runs) {
    const StepSpan span{.tokens = {&token, 1},
                        .pages = sequence.pages(),
                        .first_slot = sequence.length(),
                        .positions = {},
                        .outputs = Outputs::kNone,
                        .runs = runs};
    return model.plan().Run({&span, 1}, nullptr).code();
  };
  constexpr auto tile = static_cast<int64_t>(kAttentionTile);
  EXPECT_EQ(run({{0, 0}, {tile, tile}}), Code::kOk);
  EXPECT_EQ(run({{tile, 0}}), Code::kInvalidArgument);
  EXPECT_EQ(run({{0, 0}, {1, tile}}), Code::kInvalidArgument);
  EXPECT_EQ(run({{0, 0}, {tile, tile}, {tile, 2 * tile}}), Code::kInvalidArgument);
  EXPECT_EQ(run({{0, 0}, {3 * tile, tile}}), Code::kInvalidArgument);
}

}  // namespace
}  // namespace moonlit::test
