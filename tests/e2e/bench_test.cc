// SPDX-License-Identifier: Apache-2.0
// `moonlit bench` from outside, on models and shapes so small that nothing about speed can be said: that the reports have their
// rows and keys and survive an early end, that numbers agree with each other, and that the fused result is the naive one's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>

#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kQuick = {"--min-seconds", "0", "--read-mib", "1", "--cold-mib", "0", "-t", "2"};

Outcome Bench(std::vector<std::string> flags, const char* variant = nullptr) {
  flags.insert(flags.begin(), "bench");
  flags.insert(flags.end(), kQuick.begin(), kQuick.end());
  RunOptions options;
  if (variant != nullptr) options.environment = {std::string("MOONLIT_VARIANT=") + variant};
  return RunMoonlit(flags, options);
}

Outcome BenchModel(std::vector<std::string> flags, bool interrupt = false) {
  flags.insert(flags.begin(), {"bench", "-m", "poet", "--no-warmup"});
  RunOptions options;
  options.interrupts = interrupt ? 1 : 0;
  return RunMoonlit(flags, options);
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// "n_prompt,n_gen,n_depth" and so on, of each row of a JSON array.
std::vector<std::string> Values(const std::string& json, const std::vector<const char*>& keys) {
  std::vector<std::string> rows;
  for (const auto& row : nlohmann::json::parse(json, nullptr, false)) {
    std::string values;
    for (const char* key : keys) values += (values.empty() ? "" : ",") + row[key].dump();
    rows.push_back(values);
  }
  return rows;
}

TEST(BenchModels, PromptsWithTheirContinuationAreOneTest) {
  const Outcome run =
      BenchModel({"-p", "16", "-n", "0", "-pg", "8,2", "-pg", "4,1", "-d", "0,8", "-r", "2", "-o", "json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(Values(run.out, {"n_prompt", "n_gen", "n_depth"}),
              testing::ElementsAre("16,0,0", "8,2,0", "4,1,0", "16,0,8", "8,2,8", "4,1,8"));
  const auto row = nlohmann::json::parse(run.out)[1];
  const double seconds = 1e-9 * row["samples_ns"][0].get<double>();
  EXPECT_NEAR(row["samples_ts"][0].get<double>() * seconds, 10, 1e-9) << "all tokens of the test count";
  EXPECT_THAT(BenchModel({"-p", "0", "-n", "0", "-pg", "8,2", "-d", "4", "-r", "1"}).out,
              HasSubstr("| pp8+tg2 @ d4 |"));
  for (const char* wrong : {"8", "8,", "8,2,1", "8-2", "-1,2", "8,99999999"})
    EXPECT_EQ(BenchModel({"-pg", wrong}).exit_code, 2) << wrong;
}

TEST(BenchSessions, ReportsSessionsAtOnceAndCancelledPrefills) {
  const std::vector<std::string> flags = {"--sessions", "1-3", "--cancel", "3", "-p", "96",
                                          "-n",         "3,5", "-r",       "1", "-t", "2"};
  auto json_flags = flags;
  json_flags.insert(json_flags.end(), {"-o", "json"});
  const Outcome run = BenchModel(json_flags);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto report = nlohmann::json::parse(run.out);
  ASSERT_EQ(report["sessions"].size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    const auto& row = report["sessions"][i];
    EXPECT_EQ(row["sessions"], i % 3 + 1);
    EXPECT_EQ(row["n_gen"], i < 3 ? 3 : 5);
    EXPECT_GT(row["prompt_ts"].get<double>(), 0);
    EXPECT_NEAR(row["gen_ts_each"].get<double>() * static_cast<double>(i % 3 + 1), row["gen_ts"].get<double>(), 1e-6);
    EXPECT_NEAR(row["times_first"].get<double>() * report["sessions"][i < 3 ? 0 : 3]["gen_ts"].get<double>(),
                row["gen_ts"].get<double>(), 1e-6);
  }
  ASSERT_EQ(report["cancel"].size(), 1u);
  EXPECT_LE(report["cancel"][0]["cancelled"].get<int>(), 3);
  EXPECT_GE(report["cancel"][0]["worst_ms"].get<double>(), report["cancel"][0]["median_ms"].get<double>());
  const Outcome markdown = BenchModel(flags);
  EXPECT_THAT(markdown.out, HasSubstr("| sessions | prompt | prompt t/s |"));
  EXPECT_THAT(markdown.out, HasSubstr("| median ms | worst ms |"));
  EXPECT_EQ(BenchModel({"--sessions", "0"}).exit_code, 2);
  EXPECT_EQ(BenchModel({"--sessions", "1", "--kernels"}).exit_code, 2);
  EXPECT_THAT(BenchModel({"--cancel", "1", "-p", "0"}).err, HasSubstr("give a longer -p"));
}

TEST(BenchModels, RangesAreWhatLlamaBenchMakesOfThem) {
  const Outcome tests = BenchModel({"-p", "1-3,8", "-n", "0-4+2", "-d", "2-9*2", "-r", "1", "-t", "1", "-o", "json"});
  ASSERT_EQ(tests.exit_code, 0) << tests.err;
  std::vector<std::string> expected;
  for (const char* depth : {"2", "4", "8"}) {
    for (const char* test : {"1,0,", "2,0,", "3,0,", "8,0,", "0,2,", "0,4,"})
      expected.push_back(std::string(test) + depth);
  }
  EXPECT_EQ(Values(tests.out, {"n_prompt", "n_gen", "n_depth"}), expected);
  const Outcome setups =
      BenchModel({"-p", "8", "-n", "0", "-r", "1", "-t", "1-2", "-b", "4-8*2", "-ub", "2-4+2", "-o", "json"});
  ASSERT_EQ(setups.exit_code, 0) << setups.err;
  EXPECT_THAT(Values(setups.out, {"n_threads", "n_batch", "n_ubatch"}),
              testing::ElementsAre("1,4,2", "1,4,4", "1,8,2", "1,8,4", "2,4,2", "2,4,4", "2,8,2", "2,8,4"));
  EXPECT_THAT(BenchModel({"-p", "8", "-n", "0", "-r", "1", "-b", "4,8"}).out, HasSubstr("| n_batch | n_ubatch |"));
  for (const char* wrong : {"4-2", "1-", "1-4/2", "0-8*2", "1-8*1", "1-8+0", "x", "", "1-99999999", "1-4+2+2"}) {
    const Outcome run = BenchModel({"-p", wrong, "-n", "0"});
    EXPECT_EQ(run.exit_code, 2) << wrong;
    EXPECT_THAT(run.err, HasSubstr("--n-prompt"));
  }
}

TEST(BenchModels, JsonLinesAreTheRowsOfJson) {
  const std::vector<std::string> flags = {"-p", "8", "-n", "2", "-r", "1", "-o"};
  const auto with = [&](const char* format) {
    std::vector<std::string> words = flags;
    words.push_back(format);
    return BenchModel(words);
  };
  const Outcome lines = with("jsonl"), array = with("json");
  ASSERT_EQ(lines.exit_code, 0) << lines.err;
  const auto rows = nlohmann::json::parse(array.out);
  ASSERT_EQ(Lines(lines.out).size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const auto row = nlohmann::json::parse(Lines(lines.out)[i]);
    ASSERT_EQ(row.size(), rows[i].size());
    for (const auto& [key, value] : rows[i].items()) EXPECT_TRUE(row.contains(key)) << key;
    EXPECT_EQ(row["logits_hash"], rows[i]["logits_hash"]);
  }
}

// Rows of a report that may have ended early; -1 if it is not whole.
int RowsOf(const std::string& format, const std::string& out) {
  if (format == "json") {
    const auto rows = nlohmann::json::parse(out, nullptr, false);
    return rows.is_array() ? static_cast<int>(rows.size()) : -1;
  }
  if (!out.empty() && out.back() != '\n') return -1;
  const int heading = format == "md" ? 2 : format == "csv" ? 1 : 0;
  return static_cast<int>(Lines(out).size()) - heading;
}

TEST(BenchModels, FinishedRowsOutliveALaterFailure) {
  for (const char* format : {"md", "json", "jsonl", "csv"}) {
    const Outcome run = BenchModel({"-m", "/no/such/model.gguf", "-p", "8", "-n", "2", "-r", "1", "-o", format});
    EXPECT_EQ(run.exit_code, 1) << format;
    EXPECT_THAT(run.err, HasSubstr("/no/such/model.gguf"));
    EXPECT_EQ(RowsOf(format, run.out), 2) << run.out;
  }
  EXPECT_EQ(RunMoonlit({"bench", "-m", "/no/such/model.gguf", "-o", "json"}).out, "[]\n");
}

TEST(BenchModels, FinishedRowsOutliveCtrlC) {
  for (const char* format : {"md", "json", "jsonl", "csv"}) {
    const Outcome run = BenchModel({"-p", "8", "-n", "4000", "-r", "3", "-o", format}, true);
    EXPECT_EQ(run.exit_code, 130) << format;
    EXPECT_EQ(RowsOf(format, run.out), 1) << run.out;
  }
}

void ExpectPeaks(const nlohmann::json& report) {
  ASSERT_EQ(report["peaks"].size(), 1u);
  const auto& peaks = report["peaks"][0];
  EXPECT_EQ(peaks["threads"], 2);
  for (const char* rate : {"int8_gops", "f32_gflops", "read_gb_s"}) EXPECT_GT(peaks[rate].get<double>(), 0) << rate;
  EXPECT_EQ(peaks["bf16_gflops"].get<double>() > 0, peaks["bf16_loop"] != "none");
  for (const char* name : {"int8_loop", "f32_loop", "read_pages"}) EXPECT_NE(peaks[name], "") << name;
  EXPECT_GE(peaks["read_streams"].get<int>(), 1);
}

TEST(BenchKernels, JsonHasARowForEveryFormatShapeAndRows) {
  const Outcome run =
      Bench({"--kernels", "--formats", "Q4_0,q6_k,F16", "--shapes", "32x256,48x512", "--rows", "1,5", "-o", "json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto report = nlohmann::json::parse(run.out);
  ExpectPeaks(report);
  std::set<std::string> rows;
  for (const auto& row : report["kernels"]) {
    for (const char* key : {"peak_percent", "read_percent", "quantize_us", "pack_gb_s", "provider"})
      EXPECT_TRUE(row.contains(key)) << key;
    EXPECT_THAT(row["kernel"].get<std::string>(), Not(testing::IsEmpty()));
    const double seconds = 1e-6 * row["time_us"].get<double>();
    const double macs = row["m"].get<double>() * row["n"].get<double>() * row["k"].get<double>();
    EXPECT_NEAR(row["gops"].get<double>() * seconds, 2e-9 * macs, 1e-9 * 2e-9 * macs);
    if (row["format"] == "Q4_0") {  // 18 bytes for 32 weights
      const double bytes = row["n"].get<double>() * row["k"].get<double>() / 32 * 18;
      EXPECT_NEAR(row["gb_s"].get<double>() * seconds, 1e-9 * bytes, 1e-9 * 1e-9 * bytes);
      EXPECT_EQ(row["peak"], "int8");
    }
    rows.insert(row["format"].get<std::string>() + row["n"].dump() + "x" + row["k"].dump() + "," + row["m"].dump());
  }
  EXPECT_EQ(report["kernels"].size(), 12u);
  EXPECT_EQ(rows.size(), 12u);
  EXPECT_EQ(rows.count("Q6_K48x512,5"), 1u);
}

TEST(BenchKernels, MarkdownAndForcedVariant) {
  const Outcome run =
      Bench({"--kernels", "--formats", "Q8_0", "--shapes", "16x64", "--rows", "1"}, MOONLIT_PLAINEST_VARIANT);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("variant " MOONLIT_PLAINEST_VARIANT));
  EXPECT_THAT(run.out, HasSubstr("| Q8_0 | 16 | 64 | 1 |"));
}

TEST(BenchKernels, JsonLinesAreTheMeasurements) {
  const Outcome run = Bench({"--kernels", "--formats", "Q8_0", "--shapes", "16x64", "--rows", "1,2", "-o", "jsonl"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<std::string> lines = Lines(run.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(lines[1])["m"], 2);
}

TEST(BenchKernels, WrongFlagsAreUsageErrors) {
  const Outcome shape = Bench({"--kernels", "--shapes", "16by64"});
  EXPECT_EQ(shape.exit_code, 2);
  EXPECT_THAT(shape.err, HasSubstr("16by64"));
  const Outcome width = Bench({"--kernels", "--shapes", "16x64", "--formats", "Q4_K"});
  EXPECT_EQ(width.exit_code, 2);
  EXPECT_THAT(width.err, HasSubstr("256"));
  EXPECT_EQ(Bench({"--kernels", "--formats", "Q9_9"}).exit_code, 2);
  EXPECT_EQ(Bench({"--kernels", "--attention"}).exit_code, 2);
  EXPECT_EQ(Bench({"--kernels", "-p", "16"}).exit_code, 2);
  EXPECT_EQ(Bench({"--formats", "Q4_0"}).exit_code, 2) << "only with --kernels";
  EXPECT_EQ(Bench({"--plot", "x.svg"}).exit_code, 2) << "only with --attention";
}

// Bounds of docs/design.md for unit-normal data, and some room: the data here is uniform and few.
double DifferenceBound(const std::string& type) {
  return type == "f32" || type == "f16" ? 1e-3 : type == "bf16" ? 1e-2 : 1e-1;
}

TEST(BenchAttention, JsonRowsAgreeWithTheNaiveVersion) {
  const Outcome run = Bench({"--attention", "--shape", "6,3,32", "--contexts", "40,600", "--tokens", "1,33", "--ctk",
                             "f32,bf16,q8_0", "-ctv", "f32", "-o", "json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto report = nlohmann::json::parse(run.out);
  ExpectPeaks(report);
  ASSERT_EQ(report["attention"].size(), 12u);
  for (const auto& row : report["attention"]) {
    const double tokens = row["tokens"].get<double>(), context = row["context"].get<double>();
    const double keys = tokens * (context - tokens) + tokens * (tokens + 1) / 2;
    const double flops = 4 * 6 * 32 * keys;
    EXPECT_NEAR(row["gflops"].get<double>() * row["time_ms"].get<double>() * 1e6, flops, 1e-9 * flops);
    EXPECT_EQ(row["gb_s"].is_null(), tokens > 1);
    EXPECT_TRUE(row["peak_percent"].is_number());
    EXPECT_GT(row["naive_ms"].get<double>(), 0);
    EXPECT_GT(row["speedup"].get<double>(), 0);
    EXPECT_GT(row["difference"].get<double>(), 0) << "two ways of summation never agree in every bit";
    EXPECT_LT(row["difference"].get<double>(), DifferenceBound(row["type_k"].get<std::string>())) << row.dump();
    if (tokens == 1 && row["type_k"] == "f32") {
      const double bytes = row["gb_s"].get<double>() * row["time_ms"].get<double>() * 1e6;
      EXPECT_NEAR(bytes, 3 * context * 2 * 32 * 4, 1e-6 * bytes);
    }
  }
}

TEST(BenchAttention, PlotHasACurveForEachWayAndAPointForEachLength) {
  const std::string path = ::testing::TempDir() + "moonlit_attention.svg";
  std::remove(path.c_str());
  const Outcome run = Bench({"--attention", "--shape", "2,1,16", "--contexts", "8,24,1024", "--tokens", "1",
                             "--naive-mib", "1", "--plot", path, "-o", "csv"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("tokens,context"));
  std::ifstream in(path);
  std::ostringstream svg;
  svg << in.rdbuf();
  const std::string text = svg.str();
  auto count = [&](const std::string& what) {
    size_t found = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("<svg "), 1u);
  EXPECT_EQ(count("</svg>"), 1u);
  EXPECT_EQ(count("<polyline "), 2u);
  EXPECT_EQ(count("<circle "), 5u) << "the naive table of 1024 x 1024 floats is above the limit";
  std::remove(path.c_str());
}

TEST(BenchAttention, WrongFlagsAreUsageErrors) {
  EXPECT_EQ(Bench({"--attention", "--shape", "6,4,32"}).exit_code, 2);
  EXPECT_EQ(Bench({"--attention", "--shape", "6,4"}).exit_code, 2);
  EXPECT_EQ(Bench({"--attention", "-ctk", "q9"}).exit_code, 2);
  EXPECT_EQ(Bench({"--attention", "--tokens", "0"}).exit_code, 2);
  EXPECT_EQ(Bench({"--attention", "--rows", "1"}).exit_code, 2);
}

}  // namespace
}  // namespace moonlit::test
