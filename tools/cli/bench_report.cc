// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/bench_report.h"

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "nlohmann/json.hpp"
#include "runtime/api/moonlit.h"
#include "tools/cli/command.h"

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
  std::string name = row.n_prompt > 0 ? "pp" + std::to_string(row.n_prompt) : "tg" + std::to_string(row.n_gen);
  if (row.n_depth > 0) name += " @ d" + std::to_string(row.n_depth);
  return name;
}

void PrintMarkdown(const std::vector<BenchRow>& rows) {
  std::printf("| model | size | params | variant | threads | k/v | test | t/s |\n");
  std::printf("| --- | ---: | ---: | --- | ---: | --- | ---: | ---: |\n");
  for (const BenchRow& row : rows) {
    const Statistics rate = Summarize(Rates(row));
    std::printf("| %s | %.2f MiB | %.2f M | %s | %u | %s/%s | %s | %.2f ± %.2f |\n", row.model_type.c_str(),
                static_cast<double>(row.model_size) / 1048576.0, static_cast<double>(row.model_n_params) / 1e6,
                row.variant.c_str(), row.n_threads, row.type_k.c_str(), row.type_v.c_str(), TestName(row).c_str(),
                rate.mean, rate.deviation);
  }
}

void PrintCsv(const std::vector<BenchRow>& rows) {
  bool header = true;
  for (const BenchRow& row : rows) {
    auto json = ToJson(row);
    json.erase("samples_ns");
    json.erase("samples_ts");
    std::string names, values;
    for (const auto& [key, value] : json.items()) {
      names += (names.empty() ? "" : ",") + key;
      values += (values.empty() ? "" : ",") + value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
    if (header) std::printf("%s\n", names.c_str());
    header = false;
    std::printf("%s\n", values.c_str());
  }
}

}  // namespace

int PrintReport(const std::vector<BenchRow>& rows, const std::string& format) {
  if (format == "json") {
    auto array = nlohmann::ordered_json::array();
    for (const BenchRow& row : rows) array.push_back(ToJson(row));
    std::printf("%s\n", array.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else if (format == "csv") {
    PrintCsv(rows);
  } else {
    PrintMarkdown(rows);
  }
  return kOk;
}

}  // namespace moonlit::cli
