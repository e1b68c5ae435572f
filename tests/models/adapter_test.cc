// SPDX-License-Identifier: Apache-2.0
// LoRA adapters under real graphs: logits of the model with the adapter merged into its weights in float64, and the bits of a
// session whatever runs beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "runtime/exec/adapter.h"
#include "tests/models/loaded_model.h"
#include "tests/models/random_adapter.h"
#include "tests/support/slowed.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;
using Set = std::shared_ptr<const AdapterSet>;

std::vector<int32_t> Text(size_t count, size_t seed = 1) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>((seed * 131 + i * 71) % 320));
  return tokens;
}

std::shared_ptr<const Adapter> Load(LoadedModel& model, const RandomAdapter& adapter) {
  const MemoryWeights tensors = adapter.Tensors();
  auto loaded = model.plan().LoadAdapter(tensors, adapter.alpha());
  EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded.value()->tensors(), adapter.names().size());
  return loaded.value();
}

Set Combine(LoadedModel& model, const std::vector<AdapterUse>& uses) {
  auto set = model.plan().Combine(uses);
  EXPECT_TRUE(set.ok()) << set.status().ToString();
  return set.value();
}

float Largest(const std::vector<float>& values) {
  float largest = 0;
  for (float x : values) largest = std::max(largest, std::fabs(x));
  return largest;
}

float Distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct MergedCase {
  const char* fixture;
  bool exact;  // quantized weights: merged ones are floats, so activations must be too
};

// Separate products; one tensor for q, k and v; one for gate and up; no gate; softcap; a router; norms behind blocks; an own head.
constexpr MergedCase kMerged[] = {{"llama", false},  {"qwen2", false},      {"phi3", false},  {"gpt2", false},
                                  {"gemma2", false}, {"mixtral", false},    {"olmo2", false}, {"phi2", false},
                                  {"bloom", false},  {"llama-kquant", true}};

class MergedTest : public testing::TestWithParam<MergedCase> {};

TEST_P(MergedTest, GivesTheLogitsOfMergedWeights) {
  const MergedCase& c = GetParam();
  const TempFolder folder;
  LoadedModel model(c.fixture, {.exact = c.exact});
  const RandomAdapter first(model.source(), 3, 6, 1), second(model.source(), 17, 0, 2);
  const std::string path = folder.path() + "/merged.gguf";
  WriteMerged(model.source(), {{&first, 0.5f}, {&second, -0.25f}}, path);
  const std::vector<int32_t> text = Text(40);
  const std::vector<float> plain = model.Logits(text, 64);
  LoadedModel merged(c.fixture, {.exact = c.exact, .file = path});
  const std::vector<float> expected = merged.Logits(text, 64);
  const Set set = Combine(model, {{Load(model, first), 0.5f}, {Load(model, second), -0.25f}});
  model.adapters = set.get();
  const std::vector<float> found = model.Logits(text, 64);
  // Merging rounds each weight once, by up to 2^-24 of it; sums of a few hundred products do the rest.
  EXPECT_LT(Distance(found, expected), 1e-5f * std::max(1.0f, Largest(expected)));
  EXPECT_GT(Distance(found, plain), 0.1f) << "the adapter makes hardly a difference";
  model.adapters = nullptr;
  EXPECT_TRUE(SameBits(model.Logits(text, 64), plain)) << "something was left behind";
}

std::string NameOf(const char* fixture) {
  std::string name = fixture;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, MergedTest, testing::ValuesIn(kMerged),
                         [](const auto& info) { return NameOf(info.param.fixture); });

// With quantized activations an adapter reads what the product reads.
TEST(Adapter, QuantizedModelsComeCloseToExactOnes) {
  LoadedModel fast("llama-kquant", {}), exact("llama-kquant", {.exact = true});
  const RandomAdapter random(fast.source(), 8, 8, 3);
  const std::vector<int32_t> text = Text(40);
  const auto rms = [](const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
    return std::sqrt(sum / static_cast<double>(a.size()));
  };
  const std::vector<float> plain = exact.Logits(text, 64);
  const double noise = rms(fast.Logits(text, 64), plain);
  const Set of_fast = Combine(fast, {{Load(fast, random), 1}}), of_exact = Combine(exact, {{Load(exact, random), 1}});
  fast.adapters = of_fast.get();
  exact.adapters = of_exact.get();
  const std::vector<float> expected = exact.Logits(text, 64);
  EXPECT_GT(rms(expected, plain), 10 * noise);
  EXPECT_LT(rms(fast.Logits(text, 64), expected), 3 * noise);
}

// One step for sessions with other adapters and without, against each alone.
class TogetherTest : public testing::TestWithParam<const char*> {};

// All sequences read the same text, `chunk` tokens a step, together. Logits of all tokens of each.
std::vector<std::vector<float>> RunTogether(LoadedModel& model, const std::vector<Set>& sets, size_t chunk) {
  const std::vector<int32_t> text = Text(21);
  std::vector<Sequence> sequences;
  for (size_t s = 0; s < sets.size(); ++s) sequences.emplace_back(&model.pages());
  std::vector<std::vector<float>> logits(sets.size());
  for (size_t at = 0; at < text.size(); at += chunk) {
    const auto tokens = std::span(text).subspan(at, std::min(chunk, text.size() - at));
    std::vector<StepSpan> spans;
    for (size_t s = 0; s < sets.size(); ++s) {
      EXPECT_TRUE(sequences[s].Reserve(static_cast<int64_t>(at + tokens.size())).ok());
      spans.push_back({.tokens = tokens,
                       .pages = sequences[s].pages(),
                       .first_slot = static_cast<int64_t>(at),
                       .outputs = Outputs::kAll,
                       .runs = sequences[s].runs(),
                       .adapters = sets[s].get()});
    }
    Collector collector(model.vocab(), sets.size());
    const Status ran = model.plan().Run(spans, &collector);
    EXPECT_TRUE(ran.ok()) << ran.ToString();
    for (size_t s = 0; s < sets.size(); ++s) {
      sequences[s].Commit(tokens);
      logits[s].insert(logits[s].end(), collector.rows[s].begin(), collector.rows[s].end());
    }
  }
  return logits;
}

std::vector<Set> MakeSets(LoadedModel& model) {
  const RandomAdapter first(model.source(), 5, 10, 1), second(model.source(), 16, 16, 2);
  const auto a = Load(model, first), b = Load(model, second);
  return {nullptr, Combine(model, {{a, 1}}), Combine(model, {{b, 0.5f}, {a, -0.5f}}), nullptr,
          Combine(model, {{b, 1}})};
}

TEST_P(TogetherTest, ASessionHasTheBitsThatItHasAlone) {
  std::vector<std::vector<float>> alone;
  {
    LoadedModel model(GetParam(), {.threads = 1});
    for (const Set& set : MakeSets(model)) alone.push_back(RunTogether(model, {set}, 64)[0]);
    EXPECT_FALSE(SameBits(alone[0], alone[1]));
    EXPECT_FALSE(SameBits(alone[1], alone[2]));
  }
  for (const auto& [threads, chunk] : {std::pair<size_t, size_t>{3, 1}, {2, 7}, {1, 12}}) {
    if (kSlowed && chunk == 7) continue;
    LoadedModel model(GetParam(), {.threads = threads});
    const std::vector<Set> sets = MakeSets(model);
    const auto together = RunTogether(model, sets, chunk);
    for (size_t s = 0; s < sets.size(); ++s) {
      EXPECT_TRUE(SameBits(together[s], alone[s])) << "session " << s << ", " << threads << " threads, " << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TogetherTest,
                         testing::Values("llama", "llama-kquant", "llama-legacy", "phi3", "gemma2", "qwen2moe"),
                         [](const auto& info) { return NameOf(info.param); });

// What must be refused, and what the message names.
class RefusedTest : public testing::Test {
 protected:
  RefusedTest() : model_("llama", {.threads = 1}), tensor_(model_.source().Find("blk.0.attn_output.weight")->shape) {}

  void Add(const std::string& name, const Shape& shape) {
    ASSERT_TRUE(tensors_.Add(name, shape, std::vector<float>(shape.elements(), 0.5f)).ok());
  }
  void ExpectRefused(Code code, const char* message) {
    const auto loaded = model_.plan().LoadAdapter(tensors_, 1);
    ASSERT_FALSE(loaded.ok()) << message;
    EXPECT_EQ(loaded.status().code(), code) << loaded.status().ToString();
    EXPECT_THAT(loaded.status().ToString(), HasSubstr(message));
  }

  LoadedModel model_;
  Shape tensor_;  // attention's output: [outputs, inputs], which differ
  MemoryWeights tensors_;
};

TEST_F(RefusedTest, NoTensors) { ExpectRefused(Code::kCorrupt, "no tensors"); }

TEST_F(RefusedTest, HalfAPair) {
  Add("blk.0.attn_output.weight.lora_b", {tensor_[0], 2});
  ExpectRefused(Code::kCorrupt, "blk.0.attn_output.weight.lora_a, is missing");
}

TEST_F(RefusedTest, AnotherName) {
  Add("blk.0.attn_output.weight", {tensor_[0], 2});
  ExpectRefused(Code::kCorrupt, "expected names that end in .lora_a");
}

TEST_F(RefusedTest, ATensorThatTheModelLacks) {
  Add("blk.99.attn_output.weight.lora_a", {2, tensor_[1]});
  Add("blk.99.attn_output.weight.lora_b", {tensor_[0], 2});
  ExpectRefused(Code::kInvalidArgument, "the model has no blk.99.attn_output.weight");
}

TEST_F(RefusedTest, AnEmbedding) {
  Add("token_embd.weight.lora_a", {2, tensor_[1]});
  Add("token_embd.weight.lora_b", {model_.vocab(), 2});
  ExpectRefused(Code::kUnsupported, "token_embd.weight is no factor of a plain product");
}

TEST_F(RefusedTest, AnotherWidth) {
  Add("blk.0.attn_output.weight.lora_a", {2, tensor_[1] + 1});
  Add("blk.0.attn_output.weight.lora_b", {tensor_[0], 2});
  ExpectRefused(Code::kInvalidArgument, "attn_output.weight.lora_a");
}

TEST_F(RefusedTest, AnotherHeight) {
  Add("blk.0.attn_output.weight.lora_a", {2, tensor_[1]});
  Add("blk.0.attn_output.weight.lora_b", {tensor_[0] - 1, 2});
  ExpectRefused(Code::kInvalidArgument, "attn_output.weight.lora_b");
}

TEST_F(RefusedTest, RanksThatDiffer) {
  Add("blk.0.attn_output.weight.lora_a", {2, tensor_[1]});
  Add("blk.0.attn_output.weight.lora_b", {tensor_[0], 3});
  ExpectRefused(Code::kInvalidArgument, "attn_output.weight.lora_b");
}

TEST_F(RefusedTest, TransposedMatrices) {
  Add("blk.0.attn_output.weight.lora_a", {tensor_[1], 2});
  Add("blk.0.attn_output.weight.lora_b", {2, tensor_[0]});
  ExpectRefused(Code::kInvalidArgument, "attn_output.weight.lora_a");
}

TEST_F(RefusedTest, TooManyDimensions) {
  Add("blk.0.attn_output.weight.lora_a", {2, 2, tensor_[1]});
  Add("blk.0.attn_output.weight.lora_b", {tensor_[0], 4});
  ExpectRefused(Code::kInvalidArgument, "attn_output.weight.lora_a");
}

TEST_F(RefusedTest, AHugeRank) {
  Add("blk.0.attn_output.weight.lora_a", {kMostAdapterRank + 1, tensor_[1]});
  Add("blk.0.attn_output.weight.lora_b", {tensor_[0], kMostAdapterRank + 1});
  ExpectRefused(Code::kInvalidArgument, "rank 4097");
}

TEST_F(RefusedTest, Experts) {
  LoadedModel mixture("mixtral", {.threads = 1});
  Add("blk.0.ffn_gate_exps.weight.lora_a", {2, 4});
  Add("blk.0.ffn_gate_exps.weight.lora_b", {4, 2});
  const auto loaded = mixture.plan().LoadAdapter(tensors_, 1);
  EXPECT_EQ(loaded.status().code(), Code::kUnsupported) << loaded.status().ToString();
}

TEST_F(RefusedTest, WhatCannotBeCombined) {
  Add("blk.0.attn_output.weight.lora_a", {2, tensor_[1]});
  Add("blk.0.attn_output.weight.lora_b", {tensor_[0], 2});
  const auto adapter = model_.plan().LoadAdapter(tensors_, 1);
  ASSERT_TRUE(adapter.ok()) << adapter.status().ToString();
  const auto code = [](LoadedModel& model, std::vector<AdapterUse> uses) {
    return model.plan().Combine(uses).status().code();
  };
  LoadedModel other("llama", {.threads = 1});
  EXPECT_EQ(code(other, {{adapter.value(), 1}}), Code::kInvalidArgument);
  EXPECT_EQ(code(model_, {{nullptr, 1}}), Code::kInvalidArgument);
  EXPECT_EQ(code(model_, {{adapter.value(), NAN}}), Code::kInvalidArgument);
  EXPECT_EQ(code(model_, {{adapter.value(), INFINITY}}), Code::kInvalidArgument);
  EXPECT_EQ(code(model_, std::vector<AdapterUse>(kMostAdapters + 1, {adapter.value(), 1})), Code::kInvalidArgument);
  EXPECT_EQ(code(model_, std::vector<AdapterUse>(kMostAdapters, {adapter.value(), 1})), Code::kOk);
}

TEST_F(RefusedTest, AScaleOfNothingIsNoAdapter) {
  Add("blk.0.attn_output.weight.lora_a", {2, tensor_[1]});
  Add("blk.0.attn_output.weight.lora_b", {tensor_[0], 2});
  const auto adapter = model_.plan().LoadAdapter(tensors_, 1);
  ASSERT_TRUE(adapter.ok()) << adapter.status().ToString();
  EXPECT_EQ(Combine(model_, {{adapter.value(), 0.0f}}), nullptr);
  EXPECT_EQ(Combine(model_, {}), nullptr);
}

}  // namespace
}  // namespace moonlit::test
