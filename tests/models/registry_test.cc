// SPDX-License-Identifier: Apache-2.0
// Files that lie about their sizes, lack tensors or name other architectures: every one must give a Status that says what was
// expected and what was found. A real fixture is seen through overlays that change one thing at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include "models/common/weight_binder.h"
#include "runtime/gguf/gguf_writer.h"
#include "tests/models/loaded_model.h"
#include "tests/models/overlays.h"

namespace moonlit::test {
namespace {

using testing::HasSubstr;

class RegistryTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto source = GgufSource::Open(FixturePath(GetParam(), "model.gguf"));
    ASSERT_TRUE(source.ok()) << source.status().ToString();
    source_ = std::move(source).value();
    auto name = source_->metadata().GetString("general.architecture");
    ASSERT_TRUE(name.ok());
    prefix_ = *name + ".";
    epsilon_ = "attention.layer_norm_epsilon";
    if (!source_->metadata().Has(prefix_ + epsilon_)) epsilon_ = "attention.layer_norm_rms_epsilon";
  }
  // Whether the key is a part of the architecture's mathematics.
  bool Reads(std::string_view suffix) const {
    if (prefix_.starts_with("granite")) return suffix.ends_with("scale");
    if (prefix_ == "olmo.") return suffix == "attention.clamp_kqv";
    return (prefix_ == "llama." || prefix_ == "olmo2." || prefix_ == "phi3.") && suffix == "attention.sliding_window";
  }
  // The error, or OK.
  Status Load(const Metadata& metadata, const WeightSource& source) const {
    auto loaded = LoadGraph(metadata, source);
    return loaded.ok() ? Status() : loaded.status();
  }
  void ExpectRefused(const MetadataOverlay& metadata, const std::string& names) const {
    const Status status = Load(metadata, *source_);
    EXPECT_FALSE(status.ok()) << names;
    EXPECT_THAT(std::string(status.message()), HasSubstr(names));
  }
  std::unique_ptr<GgufSource> source_;
  std::string prefix_;
  const char* epsilon_ = "";
};

TEST_P(RegistryTest, LoadsTheFixture) {
  auto loaded = LoadGraph(source_->metadata(), *source_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->config.vocab, 320u);
  EXPECT_EQ(loaded->config.layers, 2u);
  EXPECT_TRUE(loaded->unused_tensors.empty());
}

TEST_P(RegistryTest, SizesOutOfRangeAreRefusedByName) {
  for (const char* suffix :
       {"block_count", "embedding_length", "feed_forward_length", "context_length", "attention.head_count",
        "attention.head_count_kv", "attention.key_length", "attention.value_length", "rope.dimension_count"}) {
    for (int64_t value : {int64_t{0}, int64_t{-1}, int64_t{1} << 40, INT64_MAX}) {
      MetadataOverlay metadata(source_->metadata());
      metadata.ints[prefix_ + suffix] = {value};
      ExpectRefused(metadata, prefix_ + suffix);
    }
    MetadataOverlay metadata(source_->metadata());
    metadata.strings[prefix_ + suffix] = "four";
    ExpectRefused(metadata, prefix_ + suffix);
  }
}

TEST_P(RegistryTest, AbsentSizesAreRefusedByName) {
  for (const char* suffix :
       {"block_count", "embedding_length", "feed_forward_length", "context_length", "attention.head_count", epsilon_}) {
    MetadataOverlay metadata(source_->metadata());
    metadata.hidden = prefix_ + suffix;
    ExpectRefused(metadata, prefix_ + suffix);
  }
}

TEST_P(RegistryTest, NumbersOutOfRangeAreRefusedByName) {
  for (const char* suffix : {epsilon_, "rope.freq_base"}) {
    for (double value : {0.0, -1.0, double{NAN}, double{INFINITY}, 1e30}) {
      MetadataOverlay metadata(source_->metadata());
      metadata.numbers[prefix_ + suffix] = value;
      ExpectRefused(metadata, prefix_ + suffix);
    }
  }
}

TEST_P(RegistryTest, HeadsMustDivide) {
  MetadataOverlay kv(source_->metadata());
  kv.ints[prefix_ + "attention.head_count_kv"] = {5};
  ExpectRefused(kv, "expected a divisor");
  MetadataOverlay odd(source_->metadata());
  odd.ints[prefix_ + "rope.dimension_count"] = {3};
  ExpectRefused(odd, "expected an even number");
}

TEST_P(RegistryTest, PerLayerArraysMustBeEqual) {
  MetadataOverlay equal(source_->metadata());
  const int64_t heads = source_->metadata().GetInt(prefix_ + "attention.head_count_kv").value();
  equal.ints[prefix_ + "attention.head_count_kv"] = {heads, heads};
  EXPECT_TRUE(Load(equal, *source_).ok());
  MetadataOverlay mixed(source_->metadata());
  mixed.ints[prefix_ + "attention.head_count_kv"] = {2, 1};
  ExpectRefused(mixed, "differs from layer to layer");
  for (const std::vector<int64_t>& wrong : {std::vector<int64_t>{}, {2, 2, 2}}) {
    MetadataOverlay length(source_->metadata());
    length.ints[prefix_ + "attention.head_count_kv"] = wrong;
    ExpectRefused(length, "attention.head_count_kv: expected one value or 2, one a layer, found an array of " +
                              std::to_string(wrong.size()));
  }
  for (const char* suffix : {"attention.head_count", "attention.head_count_kv", "feed_forward_length"}) {
    MetadataOverlay negative(source_->metadata());
    negative.ints[prefix_ + suffix] = {-1, -1};
    ExpectRefused(negative, prefix_ + suffix + " is -1: expected 1 to ");
  }
}

// The metadata of a file with `write` in place of one key, and YaRN's keys so that all of them are read.
using Write = std::function<void(GgufWriter&)>;
std::string HeaderWithout(const GgufFile& file, const std::string& prefix, const std::string& key, const Write& write) {
  GgufWriter writer;
  for (const GgufValue& value : file.values()) {
    if (value.key != key) writer.CopyValue(file, value);
  }
  const std::string type = prefix + "rope.scaling.type";
  const std::string factor = prefix + "rope.scaling.factor";
  if (key != type && file.Find(type) == nullptr) writer.SetString(type, "yarn");
  if (key != factor && file.Find(factor) == nullptr) writer.SetF32(factor, 2);
  write(writer);
  return writer.Header();
}

// Files in which one value stands as an array of one: an engine that reads its bytes as the value gets nonsense.
TEST_P(RegistryTest, ArraysWhereOneValueBelongsAreRefused) {
  const std::string p = prefix_;
  // Two layers: an array of one is wrong for the keys that may have one value a layer, too.
  const std::vector<std::string> ints = {p + "block_count",
                                         p + "embedding_length",
                                         p + "context_length",
                                         p + "attention.key_length",
                                         p + "attention.value_length",
                                         p + "rope.dimension_count",
                                         p + "vocab_size",
                                         p + "expert_count",
                                         p + "attention.causal",
                                         p + "use_parallel_residual",
                                         p + "attention.sliding_window",
                                         p + "rope.scaling.original_context_length",
                                         p + "attention.head_count",
                                         p + "attention.head_count_kv",
                                         p + "feed_forward_length"};
  const std::vector<std::string> floats = {p + epsilon_,
                                           p + "rope.freq_base",
                                           p + "rope.scaling.factor",
                                           p + "attention.scale",
                                           p + "attn_logit_softcapping",
                                           p + "final_logit_softcapping",
                                           p + "attention.clamp_kqv",
                                           p + "attention.max_alibi_bias",
                                           p + "logit_scale",
                                           p + "embedding_scale",
                                           p + "residual_scale",
                                           p + "rope.scaling.yarn_beta_fast",
                                           p + "rope.scaling.yarn_beta_slow",
                                           p + "rope.scaling.yarn_attn_factor",
                                           p + "rope.scaling.yarn_ext_factor",
                                           p + "rope.scaling.yarn_log_multiplier",
                                           p + "rope.scaling.attn_factor"};
  const std::vector<std::string> strings = {"general.architecture", "general.name", p + "rope.scaling.type"};
  std::vector<std::pair<std::string, Write>> odd;
  for (const auto& key : ints) odd.emplace_back(key, [&key](GgufWriter& writer) { writer.SetU32Array(key, {4}); });
  for (const auto& key : floats) odd.emplace_back(key, [&key](GgufWriter& writer) { writer.SetF32Array(key, {4}); });
  for (const auto& key : strings)
    odd.emplace_back(key, [&key](GgufWriter& writer) { writer.SetStringArray(key, {"llama"}); });
  for (const auto& [key, write] : odd) {
    const std::string header = HeaderWithout(source_->files()[0], p, key, write);
    const Result<GgufFile> file = GgufFile::OpenMemory(header.data(), header.size(), "odd.gguf");
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    const Status status = Load(GgufMetadata(&file.value()), *source_);
    EXPECT_EQ(status.code(), Code::kCorrupt) << key;
    EXPECT_THAT(std::string(status.message()), HasSubstr(key));
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected "));
    EXPECT_THAT(std::string(status.message()), HasSubstr("found an array of ")) << key;
  }
}

TEST_P(RegistryTest, TheVocabularyMustAgree) {
  MetadataOverlay metadata(source_->metadata());
  metadata.ints[prefix_ + "vocab_size"] = {319};
  ExpectRefused(metadata, "vocab_size");
}

TEST_P(RegistryTest, UnknownRopeScalingIsRefused) {
  MetadataOverlay scaling(source_->metadata());
  scaling.strings[prefix_ + "rope.scaling.type"] = "longrope";
  scaling.numbers[prefix_ + "rope.scaling.factor"] = 4;
  ExpectRefused(scaling, "longrope");
}

// Factors of cos and sin are multiplied; YaRN in other parts than this build computes is refused by name.
TEST_P(RegistryTest, FactorsOfTheRotationAreComputedOrRefused) {
  MetadataOverlay factors(source_->metadata());
  factors.numbers[prefix_ + "rope.scaling.attn_factor"] = 1.5;
  factors.numbers[prefix_ + "rope.scaling.yarn_attn_factor"] = 0.5;
  const auto loaded = LoadGraph(factors, *source_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_FLOAT_EQ(static_cast<float>(loaded->config.rope.magnitude), 0.75f);
  for (const auto& [key, value] : {std::pair("yarn_ext_factor", 0.0), std::pair("yarn_log_multiplier", 0.1)}) {
    MetadataOverlay other(source_->metadata());
    other.strings[prefix_ + "rope.scaling.type"] = "yarn";
    other.numbers[prefix_ + "rope.scaling.factor"] = 4;
    other.numbers[prefix_ + "rope.scaling." + key] = value;
    ExpectRefused(other, key);
  }
}

// A number of experts that the tensors do not have, in a file with experts or without; one that a token can't use.
TEST_P(RegistryTest, ExpertsMustAgree) {
  MetadataOverlay more(source_->metadata());
  more.ints[prefix_ + "expert_count"] = {8};
  if (!source_->metadata().Has(prefix_ + "expert_count")) {
    ExpectRefused(more, prefix_ == "llama." ? "llama.expert_used_count" : prefix_ + "expert_count");
    return;
  }
  ExpectRefused(more, "needs tensor blk.0.ffn_gate_inp.weight [8, 64], the file has [");
  const int64_t experts = source_->metadata().GetInt(prefix_ + "expert_count").value();
  for (int64_t used : {int64_t{0}, experts + 1, int64_t{-1}, int64_t{1} << 40}) {
    MetadataOverlay metadata(source_->metadata());
    metadata.ints[prefix_ + "expert_used_count"] = {used};
    ExpectRefused(metadata, prefix_ + "expert_used_count");
  }
  for (int64_t count : {int64_t{-1}, int64_t{4097}, int64_t{1} << 40}) {
    MetadataOverlay metadata(source_->metadata());
    metadata.ints[prefix_ + "expert_count"] = {count};
    ExpectRefused(metadata, prefix_ + "expert_count");
  }
  MetadataOverlay wide(source_->metadata());
  wide.ints[prefix_ + "expert_feed_forward_length"] = {48};
  ExpectRefused(wide,
                "needs tensor blk.0.ffn_gate_exps.weight [" + std::to_string(experts) + ", 48, 64], the file has");
  MetadataOverlay none(source_->metadata());
  none.hidden = prefix_ + "expert_count";
  ExpectRefused(none, prefix_ == "llama." ? "blk.0.ffn_gate.weight" : "expert_count");
}

// Of all tensors of experts: another count, another rank.
TEST_P(RegistryTest, ExpertTensorsOfAnotherCountOrRankAreNamed) {
  for (const TensorInfo* tensor : source_->All()) {
    if (tensor->shape.rank() != 3) continue;
    const Shape& s = tensor->shape;
    for (const Shape& other : {Shape{s[0] + 1, s[1], s[2]}, Shape{s[0] * s[1], s[2]}, Shape{2, s[0], s[1], s[2]}}) {
      SourceOverlay source(*source_);
      source.replaced = *tensor;
      source.replaced->shape = other;
      const Status status = Load(source_->metadata(), source);
      EXPECT_EQ(status.code(), Code::kCorrupt) << tensor->name;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(tensor->name + " " + s.ToString() + ", the file has " + other.ToString()));
    }
  }
}

// GGUF writers drop outermost dimensions of 1 or keep them.
TEST_P(RegistryTest, OutermostOnesDoNotMatter) {
  for (const TensorInfo* tensor : source_->All()) {
    SourceOverlay source(*source_);
    source.replaced = *tensor;
    Shape& shape = source.replaced->shape;
    if (shape.rank() == 3) {
      shape = {1, shape[0], shape[1], shape[2]};
    } else if (shape.rank() == 2) {
      shape = shape[0] == 1 ? Shape{shape[1]} : Shape{1, shape[0], shape[1]};
    } else {
      shape = {1, shape[0]};
    }
    EXPECT_TRUE(Load(source_->metadata(), source).ok()) << tensor->name;
  }
}

// A softcap or a window that is passed over gives fluent nonsense.
TEST_P(RegistryTest, KeysThatChangeTheMathematicsAreRefused) {
  for (const char* suffix : {"attn_logit_softcapping", "final_logit_softcapping", "attention.clamp_kqv", "logit_scale",
                             "embedding_scale", "residual_scale", "attention.scale"}) {
    if (Reads(suffix)) continue;
    MetadataOverlay metadata(source_->metadata());
    metadata.numbers[prefix_ + suffix] = 0.125001;
    ExpectRefused(metadata, suffix);
  }
  MetadataOverlay causal(source_->metadata()), parallel(source_->metadata()), window(source_->metadata());
  causal.ints[prefix_ + "attention.causal"] = {0};
  ExpectRefused(causal, "attention.causal");
  parallel.ints[prefix_ + "use_parallel_residual"] = {1};
  ExpectRefused(parallel, "use_parallel_residual");
  window.ints[prefix_ + "attention.sliding_window"] = {4};
  if (!Reads("attention.sliding_window")) ExpectRefused(window, "sliding_window");
}

TEST_P(RegistryTest, UnknownArchitecturesNameTheKnownOnes) {
  MetadataOverlay metadata(source_->metadata());
  metadata.strings["general.architecture"] = "perceptron";
  const Status status = Load(metadata, *source_);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(std::string(status.message()), HasSubstr("perceptron"));
  for (const char* known : {"(arcee, ", ", llama, ", ", starcoder2)"})
    EXPECT_THAT(std::string(status.message()), HasSubstr(known));
}

// Tensors that a known architecture has are no sign of an unknown one.
TEST(UnknownArchitectures, AreDescribedByWhatOthersLack) {
  const auto load = [](const GgufSource& base, const WeightSource& source) {
    MetadataOverlay metadata(base.metadata());
    metadata.strings["general.architecture"] = "perceptron";
    return std::string(LoadGraph(metadata, source).status().message());
  };
  size_t fixtures = 0;
  for (const auto& folder : std::filesystem::directory_iterator(MOONLIT_SOURCE_DIR "/tests/data/golden")) {
    const auto source = GgufSource::Open(folder.path().string() + "/model.gguf");
    ASSERT_TRUE(source.ok()) << source.status().ToString();
    EXPECT_THAT(load(**source, **source), testing::EndsWith(", starcoder2)")) << folder.path();
    ++fixtures;
  }
  EXPECT_GT(fixtures, 40u);
  const auto llama = GgufSource::Open(FixturePath("llama", "model.gguf"));
  ASSERT_TRUE(llama.ok());
  for (const char* name : {"blk.0.ssm_a", "blk.12.ssm_a.weight", "ssm_a", "blk.0", "blk."}) {
    SourceOverlay source(**llama);
    source.replaced = TensorInfo{name, Format::kF32, Shape{4, 4}, 64};
    EXPECT_THAT(load(**llama, source), HasSubstr("; it has tensors that none of these has: ")) << name;
  }
}

TEST_P(RegistryTest, EachMissingTensorIsNamedWithItsShape) {
  for (const TensorInfo* tensor : source_->All()) {
    SourceOverlay source(*source_);
    source.hidden = tensor->name;
    const Status status = Load(source_->metadata(), source);
    // Optional ones: without output.weight the head is tied; biases and frequency divisors may be absent.
    if (tensor->name == "output.weight" || tensor->name == "rope_freqs.weight" || tensor->name.ends_with(".bias")) {
      EXPECT_TRUE(status.ok()) << tensor->name;
      continue;
    }
    EXPECT_EQ(status.code(), Code::kUnsupported) << tensor->name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(tensor->name + " ["));
    EXPECT_THAT(std::string(status.message()), HasSubstr("the file has none"));
  }
}

TEST_P(RegistryTest, EachReshapedTensorIsNamedWithBothShapes) {
  for (const TensorInfo* tensor : source_->All()) {
    SourceOverlay source(*source_);
    source.replaced = *tensor;
    source.replaced->shape =
        tensor->shape.rank() == 1 ? Shape{tensor->shape[0] + 1} : Shape{tensor->shape[0], tensor->shape[1] + 32};
    const Status status = Load(source_->metadata(), source);
    EXPECT_EQ(status.code(), Code::kCorrupt) << tensor->name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(tensor->name));
    EXPECT_THAT(std::string(status.message()), HasSubstr(tensor->shape.ToString()));
    EXPECT_THAT(std::string(status.message()), HasSubstr(source.replaced->shape.ToString()));
  }
}

TEST_P(RegistryTest, UnusedTensorsAreListed) {
  SourceOverlay source(*source_);
  source.replaced = TensorInfo{"blk.7.attn_q.weight", Format::kF32, Shape{4, 4}, 64};
  auto loaded = LoadGraph(source_->metadata(), source);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_THAT(loaded->unused_tensors, testing::ElementsAre("blk.7.attn_q.weight"));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, RegistryTest,
                         testing::Values("llama", "llama3-rope", "qwen2", "qwen3", "mixtral", "qwen2moe", "qwen3moe",
                                         "olmoe", "granitemoe", "arcee", "ernie45", "seed-oss", "granite", "olmo",
                                         "olmo2", "glm4", "phi3", "gemma", "starcoder", "falcon", "internlm2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A file of another kind under a known name: what is missing is listed, up to a number.
TEST(MissingTensors, AreListedTogether) {
  auto bert = GgufSource::Open(FixturePath("bert", "model.gguf")),
       llama = GgufSource::Open(FixturePath("llama", "model.gguf"));
  ASSERT_TRUE(bert.ok() && llama.ok());
  MetadataOverlay metadata((*llama)->metadata());
  metadata.hidden = "tokenizer.ggml.tokens";
  metadata.ints["llama.vocab_size"] = {352};
  const Status status = LoadGraph(metadata, **bert).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("architecture llama needs tensor blk.0.attn_norm.weight [72], the file has none; "
                                 "blk.0.attn_q.weight [96, 72], the file has [72, 72]; "));
  size_t listed = 0;
  for (size_t at = 0; (at = message.find(", the file has", at)) != std::string::npos; ++at) ++listed;
  EXPECT_EQ(listed, WeightBinder::kListedFaults);
  EXPECT_THAT(message, HasSubstr("; and 13 more; the file looks complete"));
}

class BertTest : public testing::Test {
 protected:
  void SetUp() override {
    auto source = GgufSource::Open(FixturePath("bert", "model.gguf"));
    ASSERT_TRUE(source.ok()) << source.status().ToString();
    source_ = std::move(source).value();
  }
  std::unique_ptr<GgufSource> source_;
};

TEST_F(BertTest, MissingTensorsAreNamed) {
  ASSERT_TRUE(LoadGraph(source_->metadata(), *source_)->unused_tensors.empty());
  for (const TensorInfo* tensor : source_->All()) {
    SourceOverlay source(*source_);
    source.hidden = tensor->name;
    const auto loaded = LoadGraph(source_->metadata(), source);
    if (tensor->name.ends_with(".bias")) {
      EXPECT_TRUE(loaded.ok()) << tensor->name;
    } else {
      EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(tensor->name));
    }
  }
}

TEST_F(BertTest, KeysSayWhatTokensSeeAndHowTheyArePooled) {
  const auto load = [&](const char* key, int64_t value) {
    MetadataOverlay metadata(source_->metadata());
    metadata.ints[key] = {value};
    return LoadGraph(metadata, *source_);
  };
  EXPECT_EQ(LoadGraph(source_->metadata(), *source_)->config.pooling, Pooling::kMean);
  EXPECT_TRUE(LoadGraph(source_->metadata(), *source_)->config.bidirectional);
  EXPECT_FALSE(load("bert.attention.causal", 1)->config.bidirectional);
  EXPECT_EQ(load("bert.pooling_type", 0)->config.pooling, Pooling::kUnknown);
  EXPECT_EQ(load("bert.pooling_type", 2)->config.pooling, Pooling::kFirst);
  EXPECT_EQ(load("bert.pooling_type", 3)->config.pooling, Pooling::kLast);
  EXPECT_EQ(load("bert.pooling_type", 4).status().code(), Code::kUnsupported);
  EXPECT_EQ(load("bert.pooling_type", 5).status().code(), Code::kCorrupt);
  EXPECT_THAT(std::string(load("tokenizer.ggml.token_type_count", 3).status().message()),
              HasSubstr("token_types.weight"));
  MetadataOverlay silent(source_->metadata());
  silent.hidden = "tokenizer.ggml.token_type_count";
  EXPECT_EQ(LoadGraph(silent, *source_)->config.token_types, 2u) << "as many as the file has";
  EXPECT_EQ(load("tokenizer.ggml.token_type_count", int64_t{1} << 40).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace moonlit::test
