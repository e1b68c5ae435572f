// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/bench_report.h"

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "nlohmann/json.hpp"
#include "runtime/api/moonlit.h"

namespace moonlit::cli {
namespace {

struct Statistics {
  double mean = 0, deviation = 0;
};

Statistics Summarize(const std::vector<double>& samples) {
  Statistics s;
  if (samples.empty()) return s;
  const double n = static_cast<double>(samples.size());
  s.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  if (samples.size() > 1) {
    double squares = 0;
    for (double x : samples) squares += (x - s.mean) * (x - s.mean);
    s.deviation = std::sqrt(squares / (n - 1));
  }
  return s;
}

std::vector<double> Rates(const BenchRow& row) {
  std::vector<double> rates;
  for (double ns : row.samples_ns) rates.push_back(1e9 * static_cast<double>(row.n_prompt + row.n_gen) / ns);
  return rates;
}

nlohmann::ordered_json ToJson(const BenchRow& row) {
  const std::vector<double> rates = Rates(row);
  const Statistics time = Summarize(row.samples_ns), rate = Summarize(rates);
  char hash[24];
  std::snprintf(hash, sizeof hash, "%016" PRIx64, row.logits_hash);
  return {{"build_version", moonlit_version()},
          {"backends", "CPU"},
          {"variant", row.variant},
          {"model_filename", row.model_filename},
          {"model_type", row.model_type},
          {"model_size", row.model_size},
          {"model_n_params", row.model_n_params},
          {"n_batch", row.n_batch},
          {"n_ubatch", row.n_ubatch},
          {"n_threads", row.n_threads},
          {"type_k", row.type_k},
          {"type_v", row.type_v},
          {"flash_attn", true},
          {"n_prompt", row.n_prompt},
          {"n_gen", row.n_gen},
          {"n_depth", row.n_depth},
          {"test_time", row.test_time},
          {"avg_ns", static_cast<uint64_t>(time.mean)},
          {"stddev_ns", static_cast<uint64_t>(time.deviation)},
          {"avg_ts", rate.mean},
          {"stddev_ts", rate.deviation},
          {"samples_ns", row.samples_ns},
          {"samples_ts", rates},
          {"logits_hash", hash}};
}

std::string TestName(const BenchRow& row) {
  std::string name = row.n_prompt > 0 ? "pp" + std::to_string(row.n_prompt) : "";
  if (row.n_gen > 0) name += (name.empty() ? "tg" : "+tg") + std::to_string(row.n_gen);
  if (row.n_depth > 0) name += " @ d" + std::to_string(row.n_depth);
  return name;
}

// A file's name may be no UTF-8.
std::string Dump(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

void PrintMarkdown(const BenchRow& row, bool header, bool show_batches) {
  if (header) {
    std::printf("| model | size | params | variant | threads |%s k/v | test | t/s |\n",
                show_batches ? " n_batch | n_ubatch |" : "");
    std::printf("| --- | ---: | ---: | --- | ---: |%s --- | ---: | ---: |\n", show_batches ? " ---: | ---: |" : "");
  }
  const std::string batches =
      show_batches ? " " + std::to_string(row.n_batch) + " | " + std::to_string(row.n_ubatch) + " |" : "";
  const Statistics rate = Summarize(Rates(row));
  std::printf("| %s | %.2f MiB | %.2f M | %s | %u |%s %s/%s | %s | %.2f ± %.2f |\n", row.model_type.c_str(),
              static_cast<double>(row.model_size) / 1048576.0, static_cast<double>(row.model_n_params) / 1e6,
              row.variant.c_str(), row.n_threads, batches.c_str(), row.type_k.c_str(), row.type_v.c_str(),
              TestName(row).c_str(), rate.mean, rate.deviation);
}

void PrintCsv(const BenchRow& row, bool header) {
  auto json = ToJson(row);
  json.erase("samples_ns");
  json.erase("samples_ts");
  std::string names, values;
  for (const auto& [key, value] : json.items()) {
    names += (names.empty() ? "" : ",") + key;
    values += (values.empty() ? "" : ",") + Dump(value);
  }
  if (header) std::printf("%s\n", names.c_str());
  std::printf("%s\n", values.c_str());
}

}  // namespace

void BenchReport::Add(const BenchRow& row) {
  const bool first = rows_++ == 0;
  if (format_ == "json") {
    std::printf("%s%s", first ? "[\n" : ",\n", Dump(ToJson(row), 2).c_str());
  } else if (format_ == "jsonl") {
    std::printf("%s\n", Dump(ToJson(row)).c_str());
  } else if (format_ == "csv") {
    PrintCsv(row, first);
  } else {
    PrintMarkdown(row, first, show_batches_);
  }
  std::fflush(stdout);
}

void BenchReport::End() {
  if (format_ == "json") std::printf("%s", rows_ == 0 ? "[]\n" : "\n]\n");
}

}  // namespace moonlit::cli
