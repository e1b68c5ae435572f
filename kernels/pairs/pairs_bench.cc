// SPDX-License-Identifier: Apache-2.0
// One query of attention in its plain form: its dot products with n keys, and the weighted sum of n values; bytes read.
#include "kernels/pairs/pairs.h"

#include <string>

#include "kernels/cpu/bench_main.h"

namespace moonlit {

void RegisterBenchmarks(Variant variant) {
  constexpr size_t kDim = 64;
  for (const bool sum : {false, true}) {
    for (const size_t n : {256, 4096}) {
      const std::string name = std::string(sum ? "weighted_sum" : "dots") + "/n:" + std::to_string(n);
      benchmark::RegisterBenchmark(name, [=](benchmark::State& state) {
        const std::vector<float> x = BenchValues(n > kDim ? n : kDim), rows = BenchValues(n * kDim);
        std::vector<float> out(n > kDim ? n : kDim);
        const PairTable& table = GetPairTable(variant);
        for (auto _ : state) {
          (sum ? table.weighted_sum : table.dots)(x.data(), rows.data(), kDim, n, kDim, out.data());
          benchmark::ClobberMemory();
        }
        ReportRates(state, {.bytes = static_cast<double>(n * kDim * sizeof(float))});
      });
    }
  }
}

}  // namespace moonlit
