// SPDX-License-Identifier: Apache-2.0
// Norms of one row; bytes read and written.
#include "kernels/norm/norm.h"

#include <string>

#include "kernels/cpu/bench_main.h"

namespace moonlit {
namespace {

void Norm(benchmark::State& state, void (*norm)(const NormArgs&), size_t d) {
  const std::vector<float> x = BenchValues(d), weight = BenchValues(d), bias = BenchValues(d);
  std::vector<float> out(d);
  const NormArgs args = {.x = x.data(),
                         .x_stride = d,
                         .rows = 1,
                         .d = d,
                         .weight = weight.data(),
                         .bias = bias.data(),
                         .eps = 1e-5f,
                         .out = out.data(),
                         .out_stride = d};
  for (auto _ : state) {
    norm(args);
    benchmark::ClobberMemory();
  }
  ReportRates(state, {.bytes = 2.0 * static_cast<double>(d * sizeof(float))});
}

}  // namespace

void RegisterBenchmarks(Variant variant) {
  const NormTable& table = GetNormTable(variant);
  for (const size_t d : {64, 576, 2048, 4096}) {
    const std::string size = "/d:" + std::to_string(d);
    benchmark::RegisterBenchmark("rms_norm" + size,
                                 [=](benchmark::State& state) { Norm(state, table.rms_norm_rows, d); });
    benchmark::RegisterBenchmark("layer_norm" + size,
                                 [=](benchmark::State& state) { Norm(state, table.layer_norm_rows, d); });
  }
}

}  // namespace moonlit
