// SPDX-License-Identifier: Apache-2.0
// What `moonlit bench --kernels` and `--attention` share: how long something is repeated, and this machine's own limits by the
// loops of kernels/peak.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cpu/variant.h"
#include "nlohmann/json.hpp"
#include "runtime/base/clock.h"
#include "runtime/threads/pool.h"
#include "tools/cli/bench_table.h"
#include "tools/cli/command.h"

namespace moonlit::cli {

struct MeasureOptions {
  double min_seconds = 0.2;
  size_t read_mib = 0;    // buffer of the read loop; 0: 512, or a quarter of the memory if that is less
  size_t cold_mib = 256;  // what lies in memory before a single row or token meets the same bytes again
  void Declare(CLI::App& app);
};

// MiB as bytes, at most half of what an address can reach.
size_t BytesOfMib(uint64_t mib);
// A number of MiB that a flag gives; 0: `bytes`, or a quarter of the machine's memory if that is less.
size_t BytesOrQuarter(uint64_t mib, size_t bytes);

// Best time of `body`, repeated until min_seconds have passed, and until the fifth time if that comes within ten times as long.
template <class Body>
double BestSeconds(double min_seconds, Body&& body) {
  double best = std::numeric_limits<double>::infinity(), total = 0;
  for (int done = 0; total < min_seconds || (done < 5 && total < 10 * min_seconds) || done == 0; ++done) {
    const double start = MonotonicSeconds();
    body();
    const double seconds = MonotonicSeconds() - start;
    best = seconds < best ? seconds : best;
    total += seconds;
  }
  return best;
}

// body(task, thread) for every task, on the pool.
template <class Body>
void ForTasks(ThreadPool& pool, size_t tasks, Body&& body) {
  const auto run = [](void* context, size_t task, size_t thread) {
    (*static_cast<std::remove_reference_t<Body>*>(context))(task, thread);
  };
  const Stage stage = {tasks, run, &body};
  const Status status = pool.Run({&stage, 1});
  MOONLIT_CHECK(status.ok());  // it can only be cancelled, and nobody does
}

// All threads of a pool together. A rate of 0: there is no such instruction.
struct MachinePeaks {
  size_t threads = 0;
  double int8_gops = 0, bf16_gflops = 0, f32_gflops = 0;
  const char* int8_loop = "";
  const char* bf16_loop = "";
  const char* f32_loop = "";
  double read_gb_s = 0;  // the best of both page sizes and all stream counts
  const char* read_pages = "";
  size_t read_streams = 0;
  nlohmann::ordered_json ToJson() const;
};

// For every number of threads (0: the machine's default): a pool, its peaks, `measure` on it, the peaks once more, and `finish`
// with the better of the two measurements, which is also added to `table` (a row of PeakColumns). What the pool or `measure`
// says (then `finish` is called all the same, for what it has measured), or kOutOfMemory for the read loop's buffer.
Status OnEachPool(const std::vector<uint32_t>& threads, Variant variant, const MeasureOptions& options,
                  BenchTable* table, const std::function<Status(ThreadPool&)>& measure,
                  const std::function<void(const MachinePeaks&)>& finish);

// The columns of ToJson.
const std::vector<BenchColumn>& PeakColumns();

// 100 * value / limit, or null where there is no limit.
nlohmann::ordered_json Percent(double value, double limit);

// kCancelled after Ctrl-C: to be asked between two measurements.
Status CheckInterrupt();

// "moonlit: <message>" on stderr; the exit code for it.
int ReportStatus(const Status& status);

}  // namespace moonlit::cli
