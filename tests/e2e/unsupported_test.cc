// SPDX-License-Identifier: Apache-2.0
// Models that are not supported: every command that takes one says at once what is missing, and exits with 2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"
#include "tests/support/altered_gguf.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;

const std::string kLlama = MOONLIT_SOURCE_DIR "/tests/data/golden/llama/model.gguf";
const std::string kFolder = MOONLIT_SOURCE_DIR "/tests/data/hugging_face/llama";

class Unsupported : public testing::Test {
 protected:
  std::string Altered(const GgufChange& change) const {
    WriteAltered(kLlama, change, folder_.path() + "/model.gguf");
    return folder_.path() + "/model.gguf";
  }
  static void ExpectRefused(const std::vector<std::string>& words, const std::vector<std::string>& names) {
    const Outcome run = RunMoonlit(words);
    EXPECT_EQ(run.exit_code, 2) << words[0] << ": " << run.err;
    EXPECT_EQ(run.out, "") << words[0];
    for (const std::string& name : names) EXPECT_THAT(run.err, HasSubstr(name)) << words[0];
  }
  void ExpectChangeRefused(const GgufChange& change, const std::vector<std::string>& names) const {
    ExpectRefused({"logits", "-m", Altered(change), "--ids", "1,2"}, names);
  }

  const TempFolder folder_;
};

TEST_F(Unsupported, ArchitecturesByEveryCommand) {
  const auto write = [](GgufWriter& writer) { writer.SetString("general.architecture", "mamba"); };
  const GgufChange change = {.key = "general.architecture",
                             .write = write,
                             .tensor = "blk.0.attn_q.weight",
                             .tensor_name = "blk.0.ssm_conv1d.weight"};
  const std::string model = Altered(change), out = folder_.path() + "/out";
  const std::vector<std::string> names = {model, "architecture \"mamba\"", "ssm_conv1d", "llama, ", "starcoder2"};
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"generate", "-m", model, "-p", "x"},
           {"chat", "-m", model},
           {"logits", "-m", model, "--ids", "1,2"},
           {"embed", "-m", model, "-p", "x"},
           {"perplexity", "-m", model, "-p", "x"},
           {"attention", "-m", model, "-p", "x"},
           {"bench", "-m", model, "-p", "1", "-n", "0", "-r", "1"},
       }) {
    ExpectRefused(words, names);
  }
}

TEST_F(Unsupported, TensorsThatAreMissing) {
  ExpectChangeRefused({.tensor = "blk.1.attn_k.weight", .tensor_name = "blk.1.attn_w.weight"},
                      {"architecture llama needs tensor blk.1.attn_k.weight [32, 72], the file has none"});
}

TEST_F(Unsupported, KindsOfRope) {
  const auto write = [](const char* type, GgufWriter& writer) {
    writer.SetString("llama.rope.scaling.type", type);
    writer.SetF32("llama.rope.scaling.factor", 2);
  };
  ExpectChangeRefused({.write = [&](GgufWriter& writer) { write("ntk-by-parts", writer); }},
                      {"llama.rope.scaling.type is \"ntk-by-parts\"", "none, linear and yarn"});
  ExpectChangeRefused({.write = [](GgufWriter& writer) { writer.SetString("llama.rope.scaling.type", "longrope"); }},
                      {"llama.rope.scaling.type is longrope", "rope_factors_long.weight"});
}

TEST_F(Unsupported, WhatChangesTheMathematics) {
  ExpectChangeRefused({.write = [](GgufWriter& writer) { writer.SetF32("llama.attn_logit_softcapping", 50); }},
                      {"llama.attn_logit_softcapping is 50", "architecture llama"});
}

// Also by commands that need no weights; --pre is the way out.
TEST_F(Unsupported, PreTokenizersCanBeNamed) {
  const auto write = [](GgufWriter& writer) { writer.SetString("tokenizer.ggml.pre", "klingon"); };
  const std::string model = Altered({.key = "tokenizer.ggml.pre", .write = write});
  const std::vector<std::string> names = {"klingon", "--pre"};
  ExpectRefused({"generate", "-m", model, "-p", "x"}, names);
  ExpectRefused({"tokenize", "-m", model, "-p", "x"}, names);
  const Outcome named = RunMoonlit({"tokenize", "-m", model, "-p", "the 1234", "--pre", "llama-bpe"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_EQ(named.out, RunMoonlit({"tokenize", "-m", kLlama, "-p", "the 1234"}).out);
}

TEST_F(Unsupported, TokenizersOfAnotherKind) {
  const auto write = [](GgufWriter& writer) { writer.SetString("tokenizer.ggml.model", "t5"); };
  ExpectChangeRefused({.key = "tokenizer.ggml.model", .write = write}, {"\"t5\""});
}

// Of a Hugging Face folder, whether it is run or converted.
TEST_F(Unsupported, Folders) {
  const auto refused = [&](const char* file, const char* path, const nlohmann::json& value,
                           const std::vector<std::string>& names) {
    const TempFolder copy;
    for (const auto& entry : std::filesystem::directory_iterator(kFolder))
      copy.Write(entry.path().filename().string(), ReadWholeFile(entry.path().string()));
    auto json = nlohmann::json::parse(ReadWholeFile(kFolder + "/" + file));
    json[nlohmann::json::json_pointer(path)] = value;
    copy.Write(file, json.dump());
    const std::string out = folder_.path() + "/out.gguf";
    ExpectRefused({"generate", "-m", copy.path(), "-p", "x"}, names);
    ExpectRefused({"convert", copy.path(), "-o", out}, names);
    EXPECT_FALSE(std::filesystem::exists(out)) << path;
  };
  refused("config.json", "/architectures/0", "MambaForCausalLM", {"\"MambaForCausalLM\"", "LlamaForCausalLM"});
  refused("config.json", "/rope_parameters/rope_type", "dynamic", {"\"dynamic\"", "linear, yarn, llama3"});
  refused("config.json", "/quantization_config", {{"quant_method", "bitnet"}}, {"quantization_config", "bitnet"});
  refused("tokenizer.json", "/model/type", "Unigram", {"Unigram", "BPE"});
  refused("tokenizer.json", "/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\p{L}+", {"\\p{L}+", "--pre"});
}

}  // namespace
}  // namespace moonlit::test
