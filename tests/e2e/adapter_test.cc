// SPDX-License-Identifier: Apache-2.0
// --lora from outside, against llama.cpp with the same adapters (tests/data/recipes/make_adapter_golden.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/e2e/process.h"
#include "tests/support/altered_gguf.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

const std::string kData = MOONLIT_SOURCE_DIR "/tests/data/";
const std::string kModel = kData + "golden/llama/model.gguf";
const std::string kAll = kData + "llama_adapter_all.gguf";

std::string List(const Json& ids) {
  std::string list;
  for (const Json& id : ids) list += (list.empty() ? "" : ",") + std::to_string(id.get<int>());
  return list;
}

// As the README writes it: FILE, or FILE:SCALE.
std::vector<std::string> Flags(const Json& adapters) {
  std::vector<std::string> flags;
  for (const Json& adapter : adapters) {
    const std::string file = kData + adapter[0].get<std::string>();
    const double scale = adapter[1];
    flags.insert(flags.end(), {"--lora", scale == 1 ? file : file + ":" + std::to_string(scale)});
  }
  return flags;
}

Json Logits(const Json& ids, const Json& adapters, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"logits", "-m", kModel, "--ids", List(ids), "-ctk", "f32", "-ctv", "f32"};
  for (const auto& flags : {Flags(adapters), more}) words.insert(words.end(), flags.begin(), flags.end());
  const Outcome run = RunMoonlit(words);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return Json::parse(run.out, nullptr, false);
}

TEST(Lora, LogitsAreThoseOfLlamaCpp) {
  const Json golden = Json::parse(ReadWholeFile(kData + "llama_adapter_golden.json"));
  ASSERT_EQ(golden["cases"].size(), 8u);
  for (const Json& c : golden["cases"]) {
    const Json found = Logits(c["prompt"], c["adapters"], {"--greedy", std::to_string(c["greedy"].size())});
    EXPECT_EQ(found["greedy"], c["greedy"]) << c["adapters"];
    ASSERT_EQ(c["greedy"].size(), 16u);
    const double logsumexp = found["logsumexp"].back();
    ASSERT_EQ(found["last_logits"].size(), c["logprobs"].size());
    for (size_t i = 0; i < c["logprobs"].size(); ++i) {
      EXPECT_NEAR(double{found["last_logits"][i]} - logsumexp, double{c["logprobs"][i]}, 1e-4) << i;
    }
  }
}

TEST(Lora, AdaptersChangeWhatIsGeneratedAndEmbedded) {
  const auto text = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"generate", "-m", kModel, "-p", "the quick", "-n", "8", "--temp", "0"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome run = RunMoonlit(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  };
  EXPECT_NE(text({"--lora", kAll}), text({}));
  EXPECT_EQ(text({"--lora", kAll + ":0"}), text({}));
  EXPECT_EQ(text({"--lora-scaled", kAll + ":1"}), text({"--lora", kAll}));
  const auto vector = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"embed", "-m", kModel, "-p", "the quick", "--pooling", "mean"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome run = RunMoonlit(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  };
  EXPECT_NE(vector({"--lora", kAll}), vector({}));
  EXPECT_EQ(vector({"--lora", kAll + ":0"}), vector({}));
}

TEST(Lora, FilesThatAreNoneAreNamed) {
  const auto run = [](const std::string& file) {
    return RunMoonlit({"generate", "-m", kModel, "-p", "x", "-n", "1", "--lora", file});
  };
  const Outcome missing = run("/no/such/adapter.gguf");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("/no/such/adapter.gguf"));
  EXPECT_EQ(run(kModel).exit_code, 2) << "a model is no adapter";
  const TempFolder folder;
  const std::string other = folder.path() + "/other.gguf";
  WriteAltered(kAll,
               {.key = "general.architecture",
                .write = [](GgufWriter& writer) { writer.SetString("general.architecture", "qwen2"); }},
               other);
  const Outcome wrong = run(other);
  EXPECT_EQ(wrong.exit_code, 2) << wrong.err;
  EXPECT_THAT(wrong.err, HasSubstr("qwen2"));
}

}  // namespace
}  // namespace moonlit::test
