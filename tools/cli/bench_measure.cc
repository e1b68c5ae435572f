// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/bench_measure.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>

#include "kernels/base/round.h"
#include "kernels/peak/peak.h"
#include "runtime/tensor/buffer.h"
#include "tools/cli/interrupt.h"

namespace moonlit::cli {
namespace {

constexpr size_t kTasksPerThread = 4;  // a core that is slower than another takes fewer
// One pass of a dot loop: long beside waking the threads, short beside the time slices of a busy machine.
constexpr double kPassSeconds = 0.003;
// A pass of the read loop is one of so many pieces of the buffer, in turn: the best is then taken over times as short as those of
// the products and of attention, which are compared with it.
constexpr size_t kReadPieces = 8;

// Results land here, so that none of the calls can be left out.
std::atomic<uint64_t> sink{0};

double MeasureDots(ThreadPool& pool, const PeakLoop& loop, double min_seconds) {
  if (loop.run == nullptr) return 0;
  auto input = std::make_unique<PeakInput>();
  FillPeakInput(1, input.get());
  const size_t tasks = pool.threads() * kTasksPerThread;
  const size_t rounds = min_seconds > 0 ? kPeakMaxRounds : kPeakMaxRounds / 64;  // 0: to see that it runs, not how fast
  size_t calls = 1;
  auto pass = [&](size_t, size_t) {
    double sum = 0;
    for (size_t i = 0; i < calls; ++i) sum += loop.run(*input, rounds);
    sink.fetch_add(static_cast<uint64_t>(std::abs(sum)), std::memory_order_relaxed);
  };
  const double once = BestSeconds(0, [&] { ForTasks(pool, tasks, pass); });
  if (min_seconds > 0) calls = std::clamp<size_t>(static_cast<size_t>(kPassSeconds / once), 1, 10000);
  const double best = BestSeconds(min_seconds, [&] { ForTasks(pool, tasks, pass); });
  return 1e-9 * PeakOps(loop) * static_cast<double>(rounds * calls * tasks) / best;
}

// Anonymous memory of this process in 2 MiB pages; 0 when the system does not say.
size_t HugePageBytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    if (line.rfind("AnonHugePages:", 0) == 0) return std::strtoull(line.c_str() + 14, nullptr, 10) << 10;
  }
  return 0;
}

void MeasureReads(ThreadPool& pool, const PeakTable& table, const Buffer& buffer, const char* pages, double min_seconds,
                  MachinePeaks* peaks) {
  const size_t tasks = pool.threads() * kTasksPerThread;
  for (size_t streams : kReadStreams) {
    // An odd number of units a stream: parts whose distance is a power of two would meet in the same sets of the caches.
    const size_t units = buffer.size() / kReadPieces / tasks / streams / kReadUnit;
    if (units == 0) continue;
    const size_t bytes = (units - (units % 2 == 0 ? 1 : 0)) * streams * kReadUnit;
    size_t pass = 0;
    const double best = BestSeconds(min_seconds, [&] {
      const uint8_t* piece = buffer.data() + pass++ % kReadPieces * tasks * bytes;
      ForTasks(pool, tasks, [&](size_t task, size_t) {
        sink.fetch_add(table.read(piece + task * bytes, bytes, streams), std::memory_order_relaxed);
      });
    });
    const double rate = 1e-9 * static_cast<double>(bytes * tasks) / best;
    if (rate <= peaks->read_gb_s) continue;
    peaks->read_gb_s = rate;
    peaks->read_pages = pages;
    peaks->read_streams = streams;
  }
}

Status MeasureMemory(ThreadPool& pool, const PeakTable& table, const MeasureOptions& options, MachinePeaks* peaks) {
  for (const bool huge : {false, true}) {
    MOONLIT_ASSIGN_OR_RETURN(
        Buffer buffer, Buffer::Allocate(BytesOrQuarter(options.read_mib, size_t{512} << 20), "the read loop's buffer"));
#ifdef MADV_NOHUGEPAGE
    if (!huge) madvise(buffer.data(), buffer.size(), MADV_NOHUGEPAGE);
#endif
    const size_t before = HugePageBytes();
    constexpr size_t kPiece = size_t{2} << 20;
    ForTasks(pool, CeilDiv(buffer.size(), kPiece), [&](size_t task, size_t) {
      const size_t begin = task * kPiece;
      std::memset(buffer.data() + begin, 1, std::min(kPiece, buffer.size() - begin));
    });
    const bool granted = HugePageBytes() >= before + buffer.size() / 2;
    const char* pages = !huge ? "4 KiB" : granted ? "2 MiB" : "2 MiB (not granted)";
    MeasureReads(pool, table, buffer, pages, options.min_seconds, peaks);
  }
  return Status();
}

// Every rate becomes the better of what it was and what is measured.
Status RaisePeaks(ThreadPool& pool, Variant variant, const MeasureOptions& options, MachinePeaks* peaks) {
  const PeakTable& table = GetPeakTable(variant);
  peaks->threads = pool.threads();
  peaks->int8_gops = std::max(peaks->int8_gops, MeasureDots(pool, table.int8, options.min_seconds));
  peaks->int8_loop = table.int8.name;
  peaks->bf16_gflops = std::max(peaks->bf16_gflops, MeasureDots(pool, table.bf16, options.min_seconds));
  peaks->bf16_loop = table.bf16.run != nullptr ? table.bf16.name : "none";
  peaks->f32_gflops = std::max(peaks->f32_gflops, MeasureDots(pool, table.f32, options.min_seconds));
  peaks->f32_loop = table.f32.name;
  return MeasureMemory(pool, table, options, peaks);
}

}  // namespace

size_t BytesOfMib(uint64_t mib) { return static_cast<size_t>(std::min<uint64_t>(mib << 20, SIZE_MAX / 2)); }

size_t BytesOrQuarter(uint64_t mib, size_t bytes) {
  if (mib != 0) return BytesOfMib(mib);
  const uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return static_cast<size_t>(std::min<uint64_t>(bytes, memory / 4));
}

void MeasureOptions::Declare(CLI::App& app) {
  constexpr char kGroup[] = "With --kernels or --attention";
  app.add_option(
         "--min-seconds", min_seconds,
         "Every measurement is repeated until this much time has passed, and until the fifth repetition if that "
         "comes within ten times as long; the best one counts")
      ->group(kGroup)
      ->capture_default_str()
      ->check(CLI::Range(0.0, 60.0));
  app.add_option("--read-mib", read_mib,
                 "MiB that the loop for the read bandwidth reads; 0: 512, or a quarter of the memory if that is less")
      ->group(kGroup)
      ->capture_default_str()
      ->check(CLI::Range(size_t{0}, size_t{1} << 20));
  app.add_option("--cold-mib", cold_mib,
                 "Copies of the weights, and for one token of the cache, take turns until they are this many MiB, so "
                 "that they come from memory: choose more than twice the last cache level")
      ->group(kGroup)
      ->capture_default_str()
      ->check(CLI::Range(size_t{0}, size_t{1} << 20));
}

Status OnEachPool(const std::vector<uint32_t>& threads, Variant variant, const MeasureOptions& options,
                  BenchTable* table, const std::function<Status(ThreadPool&)>& measure,
                  const std::function<void(const MachinePeaks&)>& finish) {
  for (uint32_t count : threads) {
    MOONLIT_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool, ThreadPool::Create({.threads = count}));
    MachinePeaks peaks;
    MOONLIT_RETURN_IF_ERROR(RaisePeaks(*pool, variant, options, &peaks));
    const Status measured = measure(*pool);
    if (measured.ok()) MOONLIT_RETURN_IF_ERROR(RaisePeaks(*pool, variant, options, &peaks));
    table->rows.push_back(peaks.ToJson());
    finish(peaks);
    MOONLIT_RETURN_IF_ERROR(measured);
  }
  return Status();
}

nlohmann::ordered_json MachinePeaks::ToJson() const {
  return {{"threads", threads},          {"int8_gops", int8_gops}, {"int8_loop", int8_loop},
          {"bf16_gflops", bf16_gflops},  {"bf16_loop", bf16_loop}, {"f32_gflops", f32_gflops},
          {"f32_loop", f32_loop},        {"read_gb_s", read_gb_s}, {"read_pages", read_pages},
          {"read_streams", read_streams}};
}

const std::vector<BenchColumn>& PeakColumns() {
  static const std::vector<BenchColumn> columns = {
      {"threads", "threads", 0},      {"int8_gops", "int8 GOPS", 0},
      {"int8_loop", "by", kText},     {"bf16_gflops", "bf16 GFLOPS", 0},
      {"bf16_loop", "by", kText},     {"f32_gflops", "f32 GFLOPS", 0},
      {"f32_loop", "by", kText},      {"read_gb_s", "read GB/s", 1},
      {"read_pages", "pages", kText}, {"read_streams", "streams a thread", 0}};
  return columns;
}

nlohmann::ordered_json Percent(double value, double limit) {
  return limit > 0 ? nlohmann::ordered_json(100 * value / limit) : nlohmann::ordered_json();
}

Status CheckInterrupt() { return Interrupted() ? Status(Code::kCancelled, "interrupted") : Status(); }

int ReportStatus(const Status& status) {
  std::fprintf(stderr, "moonlit: %s\n", std::string(status.message()).c_str());
  if (status.code() == Code::kCancelled) return kInterrupted;
  return status.code() == Code::kInvalidArgument || status.code() == Code::kUnsupported ? kUsage : kFailed;
}

}  // namespace moonlit::cli
