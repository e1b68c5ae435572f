// SPDX-License-Identifier: Apache-2.0
// The commands that write model files, from outside, and the comparison of two models by their logits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;

const std::string kLlama = MOONLIT_SOURCE_DIR "/tests/data/golden/llama/model.gguf";
const std::string kFolders = MOONLIT_SOURCE_DIR "/tests/data/hugging_face/";

std::string Logits(const std::string& model) {
  const Outcome run = RunMoonlit({"logits", "-m", model, "--ids", "1,2,3,4,5", "--exact"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.out;
}

TEST(Quantize, AFileOfTheSameTypeIsTheSameModel) {
  const TempFolder folder;
  const std::string out = folder.path() + "/copy.gguf";
  const Outcome run = RunMoonlit({"quantize", kLlama, out, "f32"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("32.00 bits a weight"));
  EXPECT_EQ(Logits(out), Logits(kLlama));
}

TEST(Quantize, WrittenFilesRunAndSayWhatTheyAre) {
  const TempFolder folder;
  const std::string out = folder.path() + "/small.gguf";
  ASSERT_EQ(RunMoonlit({"quantize", kLlama, out, "Q4_K_M", "-t", "1"}).exit_code, 0);
  EXPECT_THAT(RunMoonlit({"inspect", out}).out, HasSubstr("general.file_type                                15"));
  EXPECT_EQ(RunMoonlit({"generate", "-m", out, "-p", "the", "-n", "4", "--temp", "0"}).exit_code, 0);
}

TEST(Quantize, SaysWhatIsWrong) {
  const TempFolder folder;
  const std::string out = folder.path() + "/out.gguf";
  const Outcome type = RunMoonlit({"quantize", kLlama, out, "Q4_X"});
  EXPECT_EQ(type.exit_code, 2);
  EXPECT_THAT(type.err, HasSubstr("Q4_K_M"));
  const std::string quantized = MOONLIT_SOURCE_DIR "/tests/data/golden/llama-legacy/model.gguf";
  const Outcome twice = RunMoonlit({"quantize", quantized, out, "Q4_0"});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, HasSubstr("--allow-requantize"));
  EXPECT_EQ(RunMoonlit({"quantize", quantized, out, "Q4_0", "--allow-requantize"}).exit_code, 0);
  EXPECT_EQ(RunMoonlit({"quantize", out, out, "Q4_0"}).exit_code, 2);
  EXPECT_EQ(RunMoonlit({"quantize", folder.path() + "/none.gguf", out, "Q4_0"}).exit_code, 1);
  EXPECT_EQ(RunMoonlit({"quantize", kLlama, folder.path() + "/none/out.gguf", "Q4_0"}).exit_code, 1);
}

// llama-imatrix's old format: one entry of 72 ones, as wide as the model.
std::string OneEntryImatrix(const std::string& name) {
  const int32_t entries = 1, length = static_cast<int32_t>(name.size()), calls = 1, count = 72;
  const std::vector<float> ones(72, 1.0f);
  std::string bytes;
  const auto put = [&](const void* from, size_t size) { bytes.append(static_cast<const char*>(from), size); };
  put(&entries, 4);
  put(&length, 4);
  put(name.data(), name.size());
  put(&calls, 4);
  put(&count, 4);
  put(ones.data(), 288);
  return bytes;
}

struct Comparison {
  double ratio = 0, mean = 0, largest = 0, same_top = 0;
};

Comparison Compare(const std::string& model, const std::string& text, const std::string& base) {
  const Outcome run = RunMoonlit({"perplexity", "-m", model, "-p", text, "-c", "16", "--exact", "--compare", base});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  Comparison found;
  const auto number = [&](const char* after) {
    const size_t at = run.out.find(after);
    EXPECT_NE(at, std::string::npos) << run.out;
    return at == std::string::npos ? NAN : std::stod(run.out.substr(at + std::string(after).size()));
  };
  found.ratio = number("ratio ");
  found.mean = number("KL         mean ");
  found.largest = number("largest ");
  found.same_top = number("the same at ");
  return found;
}

TEST(Perplexity, ComparesTwoModelsByTheirLogits) {
  const TempFolder folder;
  const std::string base = folder.path() + "/logits", small = folder.path() + "/small.gguf";
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the word " + std::to_string(i * i) + " ";
  const Outcome write =
      RunMoonlit({"perplexity", "-m", kLlama, "-p", text, "-c", "16", "--exact", "--logits-out", base});
  ASSERT_EQ(write.exit_code, 0) << write.err;
  const Comparison self = Compare(kLlama, text, base);
  // The file rounds log-probabilities to steps of at most 16 / 65535.
  EXPECT_NEAR(self.ratio, 1, 16.0 / 65535);
  EXPECT_LE(std::fabs(self.mean), 16.0 / 65535);
  EXPECT_GE(self.same_top, 99);
  ASSERT_EQ(RunMoonlit({"quantize", kLlama, small, "Q4_0", "--pure"}).exit_code, 0);
  const Comparison quantized = Compare(small, text, base);
  EXPECT_GT(quantized.mean, 16.0 / 65535);
  EXPECT_GT(quantized.largest, quantized.mean);
  EXPECT_EQ(RunMoonlit({"perplexity", "-m", kLlama, "-p", text, "-c", "8", "--compare", base}).exit_code, 2);
}

// Every command that writes and every file that it reads; also by a link.
TEST(Outputs, AreNeverInputs) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the word " + std::to_string(i * i) + " ";
  const std::string words = folder.Write("words", text), model = folder.Write("model.gguf", ReadWholeFile(kLlama));
  const std::string base = folder.path() + "/base", link = folder.path() + "/link", cache = folder.path() + "/cache";
  const std::string imatrix = folder.Write("imatrix", OneEntryImatrix("blk.0.attn_q.weight"));
  const std::vector<std::string> judge = {"perplexity", "-m", model, "-f", words, "-c", "16", "--exact"};
  const auto with = [](std::vector<std::string> command, const std::vector<std::string>& more) {
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  ASSERT_EQ(RunMoonlit(with(judge, {"--logits-out", base})).exit_code, 0);
  const auto refuses = [&](const std::vector<std::string>& command, const std::string& input, RunOptions options = {}) {
    const std::string before = ReadWholeFile(input);
    const Outcome run = RunMoonlit(command, options);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr("over an input"));
    EXPECT_TRUE(ReadWholeFile(input) == before) << input;
  };
  for (const std::string& input : {words, model, base}) {
    std::filesystem::remove(link);
    std::filesystem::create_symlink(input, link);
    refuses(with(judge, {"--logits-out", input, "--compare", base}), input);
    refuses(with(judge, {"--logits-out", link, "--compare", base}), input);
  }
  refuses({"quantize", model, imatrix, "Q4_0", "--imatrix", imatrix}, imatrix);
  std::filesystem::remove(link);
  std::filesystem::create_symlink(imatrix, link);
  refuses({"quantize", model, link, "Q4_0", "--imatrix", imatrix}, imatrix);
  refuses({"generate", "-m", model, "-f", words, "-n", "1", "--prompt-cache", words}, words);
  const std::string model_folder = folder.path() + "/llama";  // where a fault does no harm
  std::filesystem::copy(kFolders + "llama", model_folder);
  const std::string tensors = model_folder + "/model-00001-of-00002.safetensors";
  refuses({"convert", model_folder, "-o", tensors}, tensors);
}

// The process ends by the signal, as without a handler.
TEST(Outputs, AreNotLeftHalfWrittenBySignals) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "the word ";
  for (const int signal : {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGALRM, SIGUSR1, SIGXCPU}) {
    const TempFolder folder;
    const std::string words = folder.Write("words", text);
    RunOptions options;
    options.signal = signal;
    options.signal_when = [&] { return folder.FileCount() > 1; };
    const Outcome run = RunMoonlit(
        {"perplexity", "-m", kLlama, "-f", words, "-c", "16", "--exact", "--logits-out", folder.path() + "/out"},
        options);
    EXPECT_EQ(run.exit_code, signal == SIGINT ? 130 : 128 + signal) << run.err;
    EXPECT_EQ(folder.FileCount(), 1u) << signal;
  }
}

// As a script starts a job in the background.
TEST(Outputs, AnIgnoredInterruptStaysIgnored) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "the word ";
  const TempFolder folder;
  const std::string words = folder.Write("words", text);
  RunOptions options;
  options.ignored = {SIGINT};
  options.signal = SIGINT;
  options.signal_when = [&] { return folder.FileCount() > 1; };
  const Outcome run = RunMoonlit(
      {"perplexity", "-m", kLlama, "-f", words, "-c", "16", "--exact", "--logits-out", folder.path() + "/out"},
      options);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/out"));
}

TEST(Outputs, ALimitOfFileSizesIsAnError) {
  const TempFolder folder;
  RunOptions options;
  options.most_file_bytes = 8192;
  const Outcome run = RunMoonlit({"quantize", kLlama, folder.path() + "/out", "F32"}, options);
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_THAT(run.err, HasSubstr("File too large"));
  EXPECT_EQ(folder.FileCount(), 0u);
}

// ---- Hugging Face folders

std::vector<double> LastLogits(const std::vector<std::string>& flags, const nlohmann::json& tokens) {
  std::string ids;
  for (const auto& token : tokens) ids += (ids.empty() ? "" : ",") + std::to_string(token.get<int>());
  std::vector<std::string> words = {"logits", "--ids", ids};
  words.insert(words.end(), flags.begin(), flags.end());
  const Outcome run = RunMoonlit(words);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto json = nlohmann::json::parse(run.out, nullptr, false);
  return json["last_logits"].get<std::vector<double>>();
}

TEST(HuggingFace, FoldersGiveTheLogitsOfTransformers) {
  for (const char* name : {"llama", "mixtral"}) {
    const auto golden = nlohmann::json::parse(ReadWholeFile(kFolders + name + "/golden.json"));
    const auto expected = golden["last_logits"].get<std::vector<double>>();
    const std::vector<double> found =
        LastLogits({"-m", kFolders + name, "--exact", "--ctk", "f32", "--ctv", "f32"}, golden["tokens"]);
    ASSERT_EQ(found.size(), expected.size());
    // Both compute in float32, as for the golden GGUF models.
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << name << " " << i;
  }
}

TEST(HuggingFace, ConvertedFilesAreTheFolder) {
  const TempFolder folder;
  const std::string out = folder.path() + "/out.gguf";
  for (const char* name : {"llama", "mixtral"}) {
    const Outcome run = RunMoonlit({"convert", kFolders + name, "-o", out});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(Logits(out), Logits(kFolders + name));
    EXPECT_THAT(RunMoonlit({"inspect", out}).out, HasSubstr("BF16"));
    const Outcome here = RunMoonlit({"tokenize", "-m", kFolders + name, "-p", "the quick dog"});
    EXPECT_EQ(here.exit_code, 0) << here.err;
    EXPECT_EQ(here.out, RunMoonlit({"tokenize", "-m", out, "-p", "the quick dog"}).out);
  }
}

TEST(HuggingFace, QuantizingOnTheFlyIsQuantizingBefore) {
  const TempFolder folder;
  const std::string out = folder.path() + "/out.gguf";
  for (const char* type : {"q8_0", "Q4_K_M"}) {
    ASSERT_EQ(RunMoonlit({"convert", kFolders + "llama", "-o", out, "--type", type}).exit_code, 0);
    const Outcome before = RunMoonlit({"logits", "-m", out, "--ids", "1,2,3"});
    const Outcome flying = RunMoonlit({"logits", "-m", kFolders + "llama", "--quantize", type, "--ids", "1,2,3"});
    EXPECT_EQ(flying.exit_code, 0) << flying.err;
    EXPECT_EQ(flying.out, before.out);
  }
  EXPECT_EQ(RunMoonlit({"logits", "-m", out, "--quantize", "Q2_K", "--ids", "1"}).exit_code, 2);
  EXPECT_EQ(RunMoonlit({"logits", "-m", kFolders + "llama", "--quantize", "Q77", "--ids", "1"}).exit_code, 2);
}

TEST(HuggingFace, AFolderWithoutAModelSaysSo) {
  const TempFolder folder;
  const Outcome run = RunMoonlit({"generate", "-m", folder.path(), "-p", "x"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("config.json"));
  EXPECT_EQ(RunMoonlit({"convert", folder.path(), "-o", folder.path() + "/out.gguf"}).exit_code, 1);
  EXPECT_EQ(folder.FileCount(), 0u);
}

}  // namespace
}  // namespace moonlit::test
