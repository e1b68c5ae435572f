// SPDX-License-Identifier: Apache-2.0
// What every kernel's microbenchmark (kernels/*/*_bench.cc) starts from: one main, one choice of the kernel variant, one way to
// report rates.
//
//   void RegisterBenchmarks(Variant variant) {
//     benchmark::RegisterBenchmark("rms_norm/d:4096", [variant](benchmark::State& state) {
//       for (auto _ : state) { ...; benchmark::ClobberMemory(); }
//       ReportRates(state, {.bytes = 8.0 * 4096});
//     });
//   }
#pragma once

#include <benchmark/benchmark.h>
#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <vector>

#include "kernels/cpu/variant.h"

namespace moonlit {

// Each *_bench.cc defines it: registers its benchmarks for one variant, which this CPU runs.
void RegisterBenchmarks(Variant variant);

// What one iteration does. Zero: not reported.
struct Work {
  double operations = 0;  // a multiply-add counts as two -> GOPS
  double bytes = 0;       // read and written -> GB/s
};
// Adds the counters "GOPS" and "GB/s" (10^9 a second). Call it after the loop.
void ReportRates(benchmark::State& state, const Work& work);

// Memory aligned to 64 bytes, zeroed; owned by this object.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t bytes) : bytes_(bytes + 63) {
    void* at = bytes_.data();
    size_t space = bytes_.size();
    data_ = static_cast<uint8_t*>(std::align(64, bytes, at, space));
  }
  uint8_t* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }

 private:
  std::vector<uint8_t> bytes_;
  uint8_t* data_;
};

// `n` values of about unit variance, the same for every run: sums of four uniform numbers.
std::vector<float> BenchValues(size_t n);

}  // namespace moonlit
