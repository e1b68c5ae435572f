// SPDX-License-Identifier: Apache-2.0
// The command from outside: what the README promises, exit codes, and what goes to which stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"
#include "tests/support/altered_gguf.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kGolden = MOONLIT_SOURCE_DIR "/tests/data/golden/";

TEST(Cli, LogitsReadTheSamePromptsAsGenerate) {
  const auto tokens = [](const std::vector<std::string>& flags, const std::string& input) {
    std::vector<std::string> words = {"logits"};
    words.insert(words.end(), flags.begin(), flags.end());
    RunOptions options;
    options.input = input;
    const Outcome run = RunMoonlit(words, options);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return nlohmann::json::parse(run.out, nullptr, false)["tokens"];
  };
  const auto given = tokens({"-p", "床前明月"}, "");
  EXPECT_EQ(given.size(), 5u);
  EXPECT_EQ(tokens({}, "床前明月\n"), given);
  const std::string path = ::testing::TempDir() + "moonlit_logits_prompt.txt";
  std::ofstream(path) << "床前明月\n";
  EXPECT_EQ(tokens({"-f", path}, ""), given);
  EXPECT_EQ(tokens({"-p", "床\\n前"}, "").size() + 1, tokens({"-p", "床\\n前", "--no-escape"}, "").size());
  EXPECT_EQ(RunMoonlit({"logits", "--ids", "1,2", "-p", "床"}).exit_code, 2);
  EXPECT_EQ(RunMoonlit({"logits", "--ids", "1,2", "-f", path}).exit_code, 2);
}

// The last token of a continuation is chosen but not read, so it needs no room.
TEST(Cli, LogitsRefuseAContinuationThatDoesNotFit) {
  const std::vector<std::string> flags = {"logits", "--ids", "1,2,3", "-c", "16", "--greedy"};
  const auto run = [&](const char* count) {
    std::vector<std::string> words = flags;
    words.push_back(count);
    return RunMoonlit(words);
  };
  const Outcome fits = run("14");
  EXPECT_EQ(fits.exit_code, 0) << fits.err;
  EXPECT_EQ(nlohmann::json::parse(fits.out, nullptr, false)["greedy"].size(), 14u);
  for (const char* many : {"15", "1000000"}) {
    const Outcome full = run(many);
    EXPECT_EQ(full.exit_code, 1);
    EXPECT_THAT(full.err, HasSubstr("--greedy"));
    EXPECT_THAT(full.err, HasSubstr("--ctx-size"));
  }
}

TEST(Cli, UnknownFlagsOfSeveralLettersAreRefusedByName) {
  const Outcome run = RunMoonlit({"generate", "-tb", "2", "-p", "x"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("generate: not expected: -tb 2\n"));
  EXPECT_EQ(RunMoonlit({"generate", "-hf", "a/b"}).exit_code, 2);
  EXPECT_THAT(RunMoonlit({"generate", "--unknown=1", "-p", "x"}).err, HasSubstr("not expected: --unknown"));
  for (const char* flag : {"-i", "-cnv", "--interactive", "--conversation"}) {
    const Outcome asked = RunMoonlit({"generate", flag});
    EXPECT_EQ(asked.exit_code, 2);
    EXPECT_THAT(asked.err, HasSubstr(std::string("not expected: ") + flag + "\nmoonlit chat"));
  }
}

// What stands behind them is read all the same: the wrong value of the last flag is refused.
TEST(Cli, FlagsOfLlamaCppWithoutAMeaningAreTaken) {
  for (const char* command : {"generate", "chat"}) {
    const Outcome run =
        RunMoonlit({command, "-ngl", "3", "-b", "8", "--mlock", "--no-mmap", "-no-cnv", "-fa", "--temp", "x"});
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err, HasSubstr("--temp")) << command;
    EXPECT_THAT(RunMoonlit({command, "-fa", "yes"}).err, HasSubstr("yes"));
    EXPECT_THAT(RunMoonlit({command, "--help"}).out, HasSubstr("-ngl"));
  }
  const Outcome bench =
      RunMoonlit({"bench", "-ngl", "0", "-mmp", "0,1", "-fa", "0,1", "-p", "1", "-n", "0", "-r", "1"});
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_THAT(RunMoonlit({"bench", "-fa", "-r", "x"}).err, HasSubstr("--repetitions"));
}

TEST(Cli, MessagesNameTheFlag) {
  const Outcome pages = RunMoonlit({"generate", "-p", "x", "--attention-pages", "1"});
  EXPECT_EQ(pages.exit_code, 2);
  EXPECT_THAT(pages.err, HasSubstr("--attention-pages"));
  const Outcome pooling = RunMoonlit({"embed", "-p", "月"});
  EXPECT_EQ(pooling.exit_code, 2);
  EXPECT_THAT(pooling.err, HasSubstr("--pooling"));
  const Outcome nothing = RunMoonlit({"inspect"});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("which model?"));
  EXPECT_EQ(RunMoonlit({"inspect", "--help"}).out.find("REQUIRED"), std::string::npos);
  EXPECT_EQ(RunMoonlit({"inspect", "-m", "poet", "--no-tensors"}).exit_code, 0);
  EXPECT_THAT(RunMoonlit({"generate", "--help"}).out, HasSubstr("smollm2"));
  const Outcome thread = RunMoonlit({"generate", "-p", "月", "-n", "1", "-t", "1"});
  EXPECT_EQ(thread.err.find("1 threads"), std::string::npos) << thread.err;
  EXPECT_EQ(RunMoonlit({"doctor"}).out.find(";\n"), std::string::npos);
}

TEST(Cli, ANumberAsAStopStringIsAWarning) {
  const auto run = [](const char* stop) { return RunMoonlit({"generate", "-p", "床", "-n", "1", "-q", "-s", stop}); };
  const Outcome number = run("42");
  EXPECT_EQ(number.exit_code, 0);
  EXPECT_THAT(number.err, HasSubstr("--seed"));
  EXPECT_EQ(run("42.").err, "");
}

TEST(Cli, ResultsThatAreLostAreNoSuccess) {
  for (const char* command : {"doctor", "bench", "detokenize"}) {
    std::vector<std::string> words = {command};
    if (words[0] == "detokenize") words.insert(words.end(), {"--ids", "300"});
    if (words[0] == "bench") words.insert(words.end(), {"-p", "4", "-n", "1", "-r", "1"});
    RunOptions full;
    full.output_to = "/dev/full";
    const Outcome run = RunMoonlit(words, full);
    EXPECT_EQ(run.exit_code, 1) << command;
    EXPECT_THAT(run.err, HasSubstr("standard output can't be written")) << command;
  }
}

TEST(Cli, InspectKnowsThePoet) {
  const Outcome run = RunMoonlit({"inspect", "poet", "--no-tensors"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("general.architecture"));
}

TEST(Cli, InspectPlansTheMemory) {
  const Outcome run = RunMoonlit({"inspect", "poet", "--plan", "-c", "128", "-t", "2"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("plan       1 session of 128 tokens, 2 threads\n"));
  for (const char* row : {"  weights ", "  cache ", "  scratch ", "  total "}) EXPECT_THAT(run.out, HasSubstr(row));
  EXPECT_THAT(run.out,
              HasSubstr("fits       yes; the largest context that does, of what it was trained for: 256 tokens"))
      << "what it was trained for";
  const Outcome large = RunMoonlit(
      {"inspect", kGolden + "llama/model.gguf", "--plan", "-c", "16777216", "--sessions", "64", "--ctk", "f32"});
  EXPECT_EQ(large.exit_code, 1) << large.out;
  EXPECT_THAT(large.out, HasSubstr(" MB a session\n"));
  EXPECT_THAT(large.out, HasSubstr("fits       no; the largest context that does, of what it was trained for: "));
  EXPECT_EQ(RunMoonlit({"inspect", "poet", "-c", "128"}).exit_code, 2) << "of no use without --plan";
  EXPECT_EQ(RunMoonlit({"inspect", "/no/such/model.gguf", "--plan"}).exit_code, 1);
}

TEST(Cli, BenchRefusesWhatNoContextHolds) {
  for (const char* many : {"4294967295", "4294967297"}) {
    EXPECT_EQ(RunMoonlit({"bench", "-p", "1", "-n", "0", "-d", many}).exit_code, 2) << many;
    EXPECT_EQ(RunMoonlit({"bench", "-p", many, "-n", "0"}).exit_code, 2) << many;
  }
  EXPECT_EQ(RunMoonlit({"bench", "-p", "0", "-n", "0"}).exit_code, 2);
  const Outcome together =
      RunMoonlit({"bench", "-m", "/no/such/model.gguf", "-p", "1", "-n", "0", "-pg", "9000000,1", "-d", "8000000"});
  EXPECT_EQ(together.exit_code, 2);
  EXPECT_THAT(together.err, HasSubstr("17000001"));
}

// One NaN scale in the embedding table: every logit of a text that meets it is NaN.
TEST(Cli, LogitsThatAreNotFiniteAreAFailure) {
  std::string bytes = ReadWholeFile(MOONLIT_SOURCE_DIR "/models/poet/poet-Q4_0.gguf");
  ASSERT_GT(bytes.size(), 100000u);
  // The tensors make up nearly the whole file: F16 NaNs over its last half hit scales of every kind.
  for (size_t i = bytes.size() / 2; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 2 == 0 ? 0xFF : 0x7F);
  const std::string path = ::testing::TempDir() + "moonlit_nan.gguf";
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(RunMoonlit({"logits", "-m", path, "-p", "床前", "--json"}).exit_code, 1);
  EXPECT_EQ(RunMoonlit({"bench", "-m", path, "-p", "4", "-n", "1", "-r", "1"}).exit_code, 1);
}

// A terminal obeys escape sequences, and files are other people's.
TEST(Cli, InspectPrintsNoControlCharactersOfAFile) {
  const TempFolder folder;
  const std::string path = folder.path() + "/odd.gguf";
  test::GgufChange change;
  change.write = [](GgufWriter& writer) {
    writer.SetString("evil\x1b[2Jkey", "value");
    writer.SetString("plain.key", "evil\x1b[2Jvalue");
  };
  change.tensor = "output_norm.weight";
  change.tensor_name = "evil\x1b]0;title\x07name";
  test::WriteAltered(kGolden + "llama/model.gguf", change, path);
  const Outcome run = RunMoonlit({"inspect", path});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("evil\\x1b[2Jkey"));
  EXPECT_THAT(run.out, HasSubstr("evil\\x1b]0;title\\x07name"));
  EXPECT_EQ(run.out.find_first_of("\x1b\x07"), std::string::npos);
}

TEST(Cli, RopeDivisorsThatAreNoNumbersAreNamed) {
  const std::string fixture = kGolden + "llama3-rope/model.gguf";
  const std::string facts = RunMoonlit({"inspect", fixture}).out;
  size_t offset = 0, bytes = 0;
  const std::string tensor = facts.substr(facts.find("rope_freqs.weight"));
  ASSERT_EQ(std::sscanf(tensor.c_str(), "rope_freqs.weight F32 %*s %zu bytes at %zu", &bytes, &offset), 2) << tensor;
  for (const char* bits : {"\x00\x00\x00\x00", "\x00\x00\xc0\x7f", "\x00\x00\x80\xbf"}) {  // 0, NaN, -1
    std::string file = ReadWholeFile(fixture);
    file.replace(offset + 4, 4, std::string(bits, 4));
    const std::string path = ::testing::TempDir() + "moonlit_rope.gguf";
    std::ofstream(path, std::ios::binary) << file;
    const Outcome run = RunMoonlit({"logits", "-m", path, "--ids", "1,2", "--json"});
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err, HasSubstr("rope_freqs.weight, entry 1"));
  }
}

TEST(Cli, UsageErrorsExitWithTwo) {
  EXPECT_EQ(RunMoonlit({}).exit_code, 2);
  EXPECT_EQ(RunMoonlit({"generate", "--no-such-flag"}).exit_code, 2);
  EXPECT_EQ(RunMoonlit({"generate", "-p", "x", "--temp", "-1"}).exit_code, 2);
  EXPECT_EQ(RunMoonlit({"generate", "-p", "x", "--ctk", "q9"}).exit_code, 2);
  EXPECT_EQ(RunMoonlit({"detokenize", "--ids", "1,x"}).exit_code, 2);
  EXPECT_EQ(RunMoonlit({"--help"}).exit_code, 0);
  EXPECT_EQ(RunMoonlit({"--version"}).exit_code, 0);
}

// What a command can refuse is named as the user wrote it, not as a field of the library's structs, and before a model is read.
TEST(Cli, ValuesOutOfRangeAreNamedByTheirFlag) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"--ctx-size", "99999999"},
      {"--ctx-size", "-1"},
      {"--page-tokens", "65"},
      {"--page-tokens", "0"},
      {"--cache-type-k", "q9"},
      {"--cache-type-v", "q9"},
      {"--ubatch-size", "0"},
      {"--temp", "1000"},
      {"--temp", "nan"},
      {"--top-p", "2"},
      {"--top-k", "-2"},
      {"--min-p", "-0.5"},
      {"--stop", ""},
      {"--repeat-penalty", "0"},
      {"--repeat-last-n", "9999999"},
      {"--threads", "2000"},
  };
  for (const auto& [flag, value] : wrong) {
    const Outcome run = RunMoonlit({"generate", "-m", "/no/such/model.gguf", "-p", "x", flag, value});
    EXPECT_EQ(run.exit_code, 2) << flag << ' ' << run.err;
    EXPECT_THAT(run.err, HasSubstr(flag));
    EXPECT_THAT(run.err, HasSubstr(value));
    for (const char* field : {"n_ctx", "tokens is", "_type", "top_", "min_p", "repeat_", "temperature"}) {
      EXPECT_EQ(run.err.find(field), std::string::npos) << run.err;
    }
  }
  for (const char* type : {"F16", "q8_0"}) {
    EXPECT_EQ(RunMoonlit({"generate", "-p", "x", "-n", "1", "-ctk", type}).exit_code, 0) << type;
  }
}

TEST(Cli, MissingAndBrokenFilesAreNamed) {
  const Outcome missing = RunMoonlit({"generate", "-m", "/no/such/model.gguf", "-p", "x"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("/no/such/model.gguf"));
  EXPECT_TRUE(missing.out.empty());
  const std::string path = ::testing::TempDir() + "moonlit_not_a_model.gguf";
  std::ofstream(path) << "<!DOCTYPE html>";
  const Outcome html = RunMoonlit({"generate", "-m", path, "-p", "x"});
  EXPECT_EQ(html.exit_code, 2) << "another kind of file is not supported";
  EXPECT_THAT(html.err, HasSubstr(path));
}

TEST(Cli, ForcedVariantIsCheckedBeforeItRuns) {
  RunOptions options;
  options.environment = {"MOONLIT_VARIANT=" MOONLIT_PLAINEST_VARIANT};
  const Outcome plain = RunMoonlit({"generate", "-p", "床前明月", "--temp", "0", "-n", "5"}, options);
  EXPECT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_THAT(plain.err, HasSubstr(MOONLIT_PLAINEST_VARIANT));
  EXPECT_THAT(plain.out, StartsWith("光"));
  options.environment = {"MOONLIT_VARIANT=z80"};
  const Outcome unknown = RunMoonlit({"generate", "-p", "x"}, options);
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("z80"));
}

TEST(Cli, TokenizeAndBack) {
  const Outcome ids = RunMoonlit({"tokenize", "-p", "床前明月光", "--json"});
  ASSERT_EQ(ids.exit_code, 0) << ids.err;
  const auto json = nlohmann::json::parse(ids.out);
  ASSERT_EQ(json["ids"].size(), 6u);  // <s> and five characters
  const Outcome plain = RunMoonlit({"tokenize", "-p", "床前明月光", "--json", "--plain"});
  ASSERT_EQ(nlohmann::json::parse(plain.out)["ids"].size(), 5u);
  std::string list;
  for (const auto& id : json["ids"]) list += (list.empty() ? "" : ",") + std::to_string(id.get<int>());
  EXPECT_EQ(RunMoonlit({"detokenize", "--ids", list}).out, "床前明月光");
}

// The keys of golden.json, compared through the command as a user would.
TEST(Cli, LogitsMatchTheGolden) {
  const auto golden = nlohmann::json::parse(ReadWholeFile(kGolden + "llama/golden.json"));
  const auto& input = golden["inputs"][1];
  std::string list;
  for (const auto& id : input["tokens"]) list += (list.empty() ? "" : ",") + std::to_string(id.get<int>());
  const Outcome run =
      RunMoonlit({"logits", "-m", kGolden + "llama/model.gguf", "--ids", list, "--greedy", "24", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto ours = nlohmann::json::parse(run.out);
  EXPECT_EQ(ours["argmax"], input["argmax"]);
  EXPECT_EQ(ours["greedy"], input["greedy"]);
  for (size_t i = 0; i < input["next_token_logit"].size(); ++i) {
    EXPECT_NEAR(ours["next_token_logit"][i].get<double>() - ours["logsumexp"][i].get<double>(),
                input["next_token_logit"][i].get<double>() - input["logsumexp"][i].get<double>(), 1e-4);
  }
  ASSERT_EQ(ours["last_logits"].size(), input["last_logits"].size());
  for (size_t i = 0; i < input["last_logits"].size(); ++i) {
    EXPECT_NEAR(ours["last_logits"][i].get<double>(), input["last_logits"][i].get<double>(), 1e-4);
  }
}

// Perplexities of llama.cpp on the same files (models/poet/README.md), within half a percent.
TEST(Cli, PoetPerplexity) {
  if (MOONLIT_EMULATOR[0] != '\0') {
    GTEST_SKIP() << "90 windows take an emulator longer than the limit of ten minutes; golden_test judges the same "
                    "kernels there";
  }
  const Outcome run =
      RunMoonlit({"perplexity", "-m", "poet", "-f", MOONLIT_SOURCE_DIR "/tests/data/poet_eval.txt", "-c", "256"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  double value = 0;
  ASSERT_EQ(std::sscanf(run.out.c_str(), "perplexity %lf", &value), 1) << run.out;
  EXPECT_NEAR(value, 76.79, 0.005 * 76.79);
}

TEST(Cli, PerplexityWindowsStayWithinWhatTheModelWasTrainedFor) {
  std::string text = ReadWholeFile(MOONLIT_SOURCE_DIR "/tests/data/poet_eval.txt");
  text.resize(text.find('\n', 2000));  // some 650 characters of three bytes: two windows and more
  RunOptions options;
  options.input = text;
  const Outcome by_default = RunMoonlit({"perplexity"}, options);
  EXPECT_EQ(by_default.exit_code, 0) << by_default.err;
  EXPECT_EQ(by_default.err, "");
  EXPECT_EQ(by_default.out, RunMoonlit({"perplexity", "-c", "256"}, options).out);
  EXPECT_THAT(RunMoonlit({"perplexity", "-c", "512"}, options).err, HasSubstr("trained for"));
  for (const char* window : {"1", "3"}) {
    const Outcome small = RunMoonlit({"perplexity", "-c", window}, options);
    EXPECT_EQ(small.exit_code, 2);
    EXPECT_THAT(small.err, HasSubstr("--ctx-size"));
    EXPECT_THAT(small.err, HasSubstr("4 to 16777216"));
  }
  EXPECT_EQ(RunMoonlit({"perplexity", "-c", "4", "-p", "床前明月光，疑是地上霜。"}).exit_code, 0);
}

TEST(Cli, BenchSpeaksLlamaBench) {
  const Outcome run = RunMoonlit(
      {"bench", "-m", "poet", "-p", "16", "-n", "4", "-d", "0,8", "-r", "2", "-o", "json", "-fa", "1", "-ub", "8"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto rows = nlohmann::json::parse(run.out);
  ASSERT_EQ(rows.size(), 4u);
  std::map<std::string, int> tests;
  for (const auto& row : rows) {
    EXPECT_GT(row["avg_ts"].get<double>(), 0);
    EXPECT_EQ(row["samples_ts"].size(), 2u);
    for (const char* key :
         {"n_threads", "type_k", "type_v", "n_batch", "n_ubatch", "model_size", "stddev_ts", "avg_ns", "test_time"}) {
      EXPECT_TRUE(row.contains(key)) << key;
    }
    ++tests[std::to_string(row["n_prompt"].get<int>()) + "," + std::to_string(row["n_gen"].get<int>()) + "," +
            std::to_string(row["n_depth"].get<int>())];
  }
  EXPECT_EQ(tests.size(), 4u);
  EXPECT_EQ(tests.count("16,0,8"), 1u);
  EXPECT_EQ(tests.count("0,4,8"), 1u);
}

// The line comes after 0.3 s. 5000 tokens are 124 GFLOP in f32: 47 of products (4.72 M weights), 77 of causal attention (6 layers, 4
// heads of 64). One thread with two 512-bit multiply-adds a cycle at 5.7 GHz would need 0.34 s at its peak.
TEST(Cli, ProgressIsShownOnATerminalAndNowhereElse) {
  if (MOONLIT_EMULATOR[0] != '\0') GTEST_SKIP() << "an emulator takes minutes for it";
  RunOptions options;
  for (int i = 0; i < 4999; ++i) options.input += "月";
  const std::vector<std::string> flags = {"generate", "--exact", "-c", "5000", "-ctk", "f32",    "-ctv",
                                          "f32",      "-t",      "1",  "-n",   "1",    "--temp", "0"};
  const Outcome piped = RunMoonlit(flags, options);
  ASSERT_EQ(piped.exit_code, 0) << piped.err;
  EXPECT_EQ(piped.err.find('\r'), std::string::npos) << piped.err;
  options.error_to_terminal = true;
  const Outcome shown = RunMoonlit(flags, options);
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_EQ(shown.out, piped.out);
  EXPECT_THAT(shown.err, HasSubstr("\rprefill "));
  const size_t cleared = shown.err.rfind("\r\033[K");
  ASSERT_NE(cleared, std::string::npos) << shown.err;
  EXPECT_EQ(shown.err.find("\rprefill ", cleared), std::string::npos) << "nothing is drawn after the line is cleared";
  EXPECT_LT(cleared, shown.err.find("prefill 5000 tokens")) << shown.err;
}

TEST(Cli, ShortWorkShowsNoProgress) {
  RunOptions options;
  options.error_to_terminal = true;
  const Outcome run = RunMoonlit({"tokenize", "-p", "春", "--json"}, options);
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
}

TEST(Cli, UnknownCommandsAreNamedWithTheNearestOne) {
  const std::map<std::string, std::string> meant = {{"genrate", "generate"},
                                                    {"geenrate", "generate"},
                                                    {"tokenise", "tokenize"},
                                                    {"Bench", "bench"},
                                                    {"docter", "doctor"}};
  for (const auto& [typed, name] : meant) {
    const Outcome run = RunMoonlit({typed});
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err, HasSubstr("\"" + typed + "\"; did you mean " + name + "?"));
  }
  const Outcome far = RunMoonlit({"quilt", "-m", "x"});
  EXPECT_EQ(far.exit_code, 2);
  EXPECT_THAT(far.err, HasSubstr("\"quilt\""));
  EXPECT_EQ(far.err.find("did you mean"), std::string::npos) << far.err;
}

TEST(Cli, VersionIsOneLine) {
  const Outcome run = RunMoonlit({"--version"});
  EXPECT_EQ(run.exit_code, 0);
  int major = 0, minor = 0, patch = 0, length = 0;
  ASSERT_EQ(std::sscanf(run.out.c_str(), "moonlit %d.%d.%d\n%n", &major, &minor, &patch, &length), 3) << run.out;
  EXPECT_EQ(static_cast<size_t>(length), run.out.size());
  EXPECT_EQ(run.err, "");
}

TEST(Cli, InspectAndDoctor) {
  const Outcome inspect = RunMoonlit({"inspect", kGolden + "llama/model.gguf"});
  EXPECT_EQ(inspect.exit_code, 0) << inspect.err;
  EXPECT_THAT(inspect.out, HasSubstr("general.architecture"));
  EXPECT_THAT(inspect.out, HasSubstr("token_embd.weight"));
  const Outcome doctor = RunMoonlit({"doctor"});
  EXPECT_EQ(doctor.exit_code, 0) << doctor.err;
  for (const char* word : {"cpu", "features", "variant", "threads", "highway"})
    EXPECT_THAT(doctor.out, HasSubstr(word));
}

TEST(Cli, ModelsAreFoundByTheirNames) {
  RunOptions options;
  options.environment = {"MOONLIT_MODELS=" + kGolden + "llama"};
  EXPECT_EQ(RunMoonlit({"tokenize", "-m", "model", "-p", "a"}, options).exit_code, 0);
  EXPECT_THAT(RunMoonlit({"inspect", "model"}, options).out, HasSubstr(kGolden + "llama/model.gguf"));
  EXPECT_THAT(RunMoonlit({"doctor"}, options).out, HasSubstr("models     " + kGolden + "llama: model\n"));
  const Outcome missing = RunMoonlit({"tokenize", "-m", "smollm2", "-p", "a"}, options);
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("fetch_smollm2.py"));
}

}  // namespace
}  // namespace moonlit::test
