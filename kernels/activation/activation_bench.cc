// SPDX-License-Identifier: Apache-2.0
// Element-wise functions over one row of 8192; bytes read and written.
#include "kernels/activation/activation.h"

#include "kernels/cpu/bench_main.h"

namespace moonlit {
namespace {

constexpr size_t kN = 8192;

void Unary(benchmark::State& state, void (*function)(const float*, float*, size_t)) {
  const std::vector<float> x = BenchValues(kN);
  std::vector<float> out(kN);
  for (auto _ : state) {
    function(x.data(), out.data(), kN);
    benchmark::ClobberMemory();
  }
  ReportRates(state, {.bytes = 2.0 * static_cast<double>(kN * sizeof(float))});
}

void Binary(benchmark::State& state, void (*function)(const float*, const float*, float*, size_t)) {
  const std::vector<float> a = BenchValues(kN), b = BenchValues(kN);
  std::vector<float> out(kN);
  for (auto _ : state) {
    function(a.data(), b.data(), out.data(), kN);
    benchmark::ClobberMemory();
  }
  ReportRates(state, {.bytes = 3.0 * static_cast<double>(kN * sizeof(float))});
}

}  // namespace

void RegisterBenchmarks(Variant variant) {
  const ActivationTable& table = GetActivationTable(variant);
  benchmark::RegisterBenchmark("silu", Unary, table.silu);
  benchmark::RegisterBenchmark("gelu", Unary, table.gelu);
  benchmark::RegisterBenchmark("gelu_tanh", Unary, table.gelu_tanh);
  benchmark::RegisterBenchmark("relu_squared", Unary, table.relu_squared);
  benchmark::RegisterBenchmark("swiglu", Binary, table.swiglu);
  benchmark::RegisterBenchmark("geglu", Binary, table.geglu);
  benchmark::RegisterBenchmark("geglu_tanh", Binary, table.geglu_tanh);
  benchmark::RegisterBenchmark("add", Binary, table.add);
  benchmark::RegisterBenchmark("mul", Binary, table.mul);
}

}  // namespace moonlit
