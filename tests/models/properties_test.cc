// SPDX-License-Identifier: Apache-2.0
// The numeric contract end to end: a position's logits are the same bits for any number of threads, prefill chunk, page size and
// batch, and whether its token came by prefill or by decode. Compared as bytes: no tolerance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/models/loaded_model.h"
#include "tests/support/slowed.h"

namespace moonlit::test {
namespace {

struct PropertyCase {
  const char* fixture;
  CacheType cache;
  bool exact;
};

// Float and integer products, every kind of cache arithmetic.
constexpr PropertyCase kCases[] = {
    {"llama", CacheType::kF32, false},         {"llama", CacheType::kBF16, false},
    {"qwen3", CacheType::kF16, false},         {"llama-legacy", CacheType::kF32, false},
    {"llama-legacy", CacheType::kQ8_0, false}, {"llama-kquant", CacheType::kBF16, false},
    {"llama-kquant", CacheType::kF32, true},   {"qwen2moe", CacheType::kF16, false},
};

// Any ids do; a multiplicative walk visits many of the 320.
std::vector<int32_t> Prompt(size_t count, int32_t seed = 1) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>((static_cast<size_t>(seed) * 131 + i * 71) % 320));
  return tokens;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The fixture of kCases that stands for a cache type where time is short.
std::string SegmentFixture(CacheType type) {
  for (const PropertyCase& c : kCases) {
    if (c.cache == type) return c.fixture;
  }
  return "";
}

class PropertiesTest : public testing::TestWithParam<PropertyCase> {
 protected:
  ModelOptions Options() const {
    ModelOptions options;
    options.cache = GetParam().cache;
    options.exact = GetParam().exact;
    options.max_rows = 128;  // three prompts of 41
    return options;
  }
  LoadedModel Model(const ModelOptions& options) const { return LoadedModel(GetParam().fixture, options); }
};

TEST_P(PropertiesTest, ThreadsDoNotChangeABit) {
  const std::vector<int32_t> tokens = Prompt(70);
  ModelOptions options = Options();
  options.threads = 1;
  const std::vector<float> expected = Model(options).Logits(tokens, 128);
  for (size_t threads : {2, 3, 5}) {
    if (kSlowed && threads != 3) continue;
    options.threads = threads;
    EXPECT_TRUE(SameBits(Model(options).Logits(tokens, 128), expected)) << threads << " threads";
  }
}

// A chunk of 1 is decode.
TEST_P(PropertiesTest, ChunksDoNotChangeABit) {
  const std::vector<int32_t> tokens = Prompt(70);
  LoadedModel model = Model(Options());
  const std::vector<float> expected = model.Logits(tokens, tokens.size());
  for (size_t chunk : {1, 7, 64}) EXPECT_TRUE(SameBits(model.Logits(tokens, chunk), expected)) << "chunks of " << chunk;
}

TEST_P(PropertiesTest, PageSizesDoNotChangeABit) {
  const std::vector<int32_t> tokens = Prompt(70);
  ModelOptions options = Options();
  options.page_tokens = 64;
  const std::vector<float> expected = Model(options).Logits(tokens, 16);
  options.page_tokens = 256;
  EXPECT_TRUE(SameBits(Model(options).Logits(tokens, 16), expected));
}

TEST_P(PropertiesTest, ABatchDoesNotChangeABit) {
  LoadedModel model = Model(Options());
  const std::vector<std::vector<int32_t>> prompts = {Prompt(33, 1), Prompt(1, 2), Prompt(20, 3), Prompt(5, 4)};
  std::vector<Sequence> sequences;
  // Every sequence has a past of its own length, so that slots differ inside the batch.
  for (size_t s = 0; s < prompts.size(); ++s) {
    sequences.emplace_back(&model.pages());
    model.Step(sequences[s], Prompt(11 * s + 1, 9), Outputs::kNone);
    ASSERT_TRUE(sequences[s].Reserve(sequences[s].length() + static_cast<int64_t>(prompts[s].size())).ok());
  }
  std::vector<StepSpan> spans;
  for (size_t s = 0; s < prompts.size(); ++s) {
    spans.push_back({.tokens = prompts[s],
                     .pages = sequences[s].pages(),
                     .first_slot = sequences[s].length(),
                     .positions = {},
                     .outputs = s == 2 ? Outputs::kLast : Outputs::kAll});
  }
  Collector batch(model.vocab(), spans.size());
  const Status ran = model.plan().Run(spans, &batch);
  ASSERT_TRUE(ran.ok()) << ran.ToString();
  for (size_t s = 0; s < prompts.size(); ++s) {
    Sequence alone(&model.pages());
    model.Step(alone, Prompt(11 * s + 1, 9), Outputs::kNone);
    EXPECT_TRUE(SameBits(model.Step(alone, prompts[s], spans[s].outputs), batch.rows[s])) << "span " << s;
  }
}

// After the last cache write only rows that lead to wanted outputs are computed. Which those are changes neither logits nor
// what later steps read from the cache.
TEST_P(PropertiesTest, WantedOutputsDoNotChangeABit) {
  LoadedModel model = Model(Options());
  const std::vector<int32_t> prompt = Prompt(41), next = Prompt(3, 5);
  const size_t vocab = model.vocab();
  Sequence whole(&model.pages());
  const std::vector<float> all = model.Step(whole, prompt, Outputs::kAll);
  const std::vector<float> after = model.Step(whole, next, Outputs::kAll);
  for (Outputs outputs : {Outputs::kNone, Outputs::kLast}) {
    // Between two spans that want nothing and something else, so that the wanted rows lie in the middle.
    std::vector<Sequence> sequences;
    std::vector<StepSpan> spans;
    for (size_t s = 0; s < 3; ++s) sequences.emplace_back(&model.pages());
    for (size_t s = 0; s < 3; ++s) {
      ASSERT_TRUE(sequences[s].Reserve(static_cast<int64_t>(prompt.size())).ok());
      spans.push_back({.tokens = prompt,
                       .pages = sequences[s].pages(),
                       .first_slot = 0,
                       .positions = {},
                       .outputs = s == 1 ? outputs : Outputs::kNone});
    }
    Collector some(vocab, spans.size());
    const Status ran = model.plan().Run(spans, &some);
    ASSERT_TRUE(ran.ok()) << ran.ToString();
    if (outputs == Outputs::kLast) {
      EXPECT_TRUE(SameBits(some.rows[1], {all.end() - static_cast<std::ptrdiff_t>(vocab), all.end()}));
    } else {
      EXPECT_TRUE(some.rows[1].empty());
    }
    for (Sequence& sequence : sequences) {
      sequence.Commit(static_cast<int64_t>(prompt.size()));
      EXPECT_TRUE(SameBits(model.Step(sequence, next, Outputs::kAll), after));
    }
  }
}

// Past several segments, so that decode shares segments out over threads and prefill does not.
TEST_P(PropertiesTest, LongContextsDecodeToTheSameBits) {
  // Segments are attention's: at their real length, which takes a thousand steps, one fixture of each cache type. small_tiles_test
  // has short ones, and all fixtures.
  if (kSlowed && kAttentionSegment > 32 && GetParam().fixture != SegmentFixture(GetParam().cache)) {
    GTEST_SKIP() << "small_tiles_test has it";
  }
  const size_t length = 2 * kAttentionSegment + kAttentionTile + 5;
  const std::vector<int32_t> tokens = Prompt(length);
  ModelOptions options = Options();
  std::vector<std::vector<float>> ends;
  for (size_t threads : {1, 3}) {
    options.threads = threads;
    LoadedModel model = Model(options);
    Sequence decoded(&model.pages());
    size_t i = 0;
    for (; i + 4 < length; i += std::min<size_t>(128, length - 4 - i)) {
      model.Step(decoded, std::span(tokens).subspan(i, std::min<size_t>(128, length - 4 - i)), Outputs::kNone);
    }
    for (; i + 1 < length; ++i) model.Step(decoded, std::span(tokens).subspan(i, 1), Outputs::kNone);
    ends.push_back(model.Step(decoded, std::span(tokens).subspan(i, 1), Outputs::kLast));
    Sequence prefilled(&model.pages());
    for (size_t j = 0; j < length; j += 100) {
      std::vector<float> last =
          model.Step(prefilled, std::span(tokens).subspan(j, std::min<size_t>(100, length - j)), Outputs::kLast);
      if (j + 100 >= length) ends.push_back(std::move(last));
    }
  }
  for (size_t i = 1; i < ends.size(); ++i) EXPECT_TRUE(SameBits(ends[i], ends[0])) << i;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, PropertiesTest, testing::ValuesIn(kCases), [](const auto& info) {
  std::string name =
      std::string(info.param.fixture) + "_" + CacheTypeName(info.param.cache) + (info.param.exact ? "_exact" : "");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace moonlit::test
