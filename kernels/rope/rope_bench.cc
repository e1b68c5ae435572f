// SPDX-License-Identifier: Apache-2.0
// Rotation of one token's 32 heads; bytes read and written, tables left out.
#include <string>

#include "kernels/cpu/bench_main.h"
#include "kernels/rope/rope.h"

namespace moonlit {
namespace {

constexpr size_t kHeads = 32;

void Rotate(benchmark::State& state, Variant variant, RopeKind kind, size_t head_dim) {
  const std::vector<float> x = BenchValues(kHeads * head_dim);
  std::vector<float> out(x.size()), cosines(head_dim / 2), sines(head_dim / 2);
  std::vector<double> frequencies(head_dim / 2);
  double magnitude = 1;
  RopeScaling scaling;
  scaling.rotated = head_dim;
  ComputeRopeFrequencies(scaling, frequencies.data(), &magnitude);
  FillRopeRow(frequencies.data(), head_dim / 2, magnitude, 1000, cosines.data(), sines.data());
  const RopeArgs args = {.kind = kind,
                         .x = x.data(),
                         .x_stride = head_dim,
                         .heads = kHeads,
                         .head_dim = head_dim,
                         .rotated = head_dim,
                         .cosines = cosines.data(),
                         .sines = sines.data(),
                         .out = out.data(),
                         .out_stride = head_dim};
  for (auto _ : state) {
    GetRopeTable(variant).rotate_heads(args);
    benchmark::ClobberMemory();
  }
  ReportRates(state, {.bytes = 2.0 * static_cast<double>(x.size() * sizeof(float))});
}

}  // namespace

void RegisterBenchmarks(Variant variant) {
  for (const size_t head_dim : {64, 128}) {
    const std::string size = "/head_dim:" + std::to_string(head_dim);
    benchmark::RegisterBenchmark("pairs" + size,
                                 [=](benchmark::State& state) { Rotate(state, variant, RopeKind::kPairs, head_dim); });
    benchmark::RegisterBenchmark("halves" + size,
                                 [=](benchmark::State& state) { Rotate(state, variant, RopeKind::kHalves, head_dim); });
  }
}

}  // namespace moonlit
