// SPDX-License-Identifier: Apache-2.0
// Softmax of one row; bytes read and written.
#include "kernels/softmax/softmax.h"

#include <string>

#include "kernels/cpu/bench_main.h"

namespace moonlit {

void RegisterBenchmarks(Variant variant) {
  for (const size_t n : {64, 1024, 49152}) {
    benchmark::RegisterBenchmark("softmax/n:" + std::to_string(n), [=](benchmark::State& state) {
      const std::vector<float> x = BenchValues(n);
      std::vector<float> out(n);
      for (auto _ : state) {
        GetSoftmaxTable(variant).softmax_row(x.data(), n, 1.0f, out.data());
        benchmark::ClobberMemory();
      }
      ReportRates(state, {.bytes = 2.0 * static_cast<double>(n * sizeof(float))});
    });
  }
}

}  // namespace moonlit
