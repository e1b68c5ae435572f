// SPDX-License-Identifier: Apache-2.0
// The scalar code of every block format: decoding, and encoding without importance. Bytes are those of the floats.
#include <string>

#include "kernels/cpu/bench_main.h"
#include "kernels/quant/format.h"

namespace moonlit {
namespace {

constexpr size_t kValues = 4096;

void Encode(benchmark::State& state, Format format) {
  const std::vector<float> values = BenchValues(kValues);
  std::vector<uint8_t> bytes(RowBytes(format, kValues));
  for (auto _ : state) {
    Traits(format).quantize(values.data(), nullptr, bytes.data(), kValues);
    benchmark::ClobberMemory();
  }
  ReportRates(state, {.bytes = static_cast<double>(kValues * sizeof(float))});
}

void Decode(benchmark::State& state, Format format) {
  std::vector<float> values = BenchValues(kValues);
  std::vector<uint8_t> bytes(RowBytes(format, kValues), 0x21);
  if (Traits(format).quantize != nullptr) Traits(format).quantize(values.data(), nullptr, bytes.data(), kValues);
  for (auto _ : state) {
    Traits(format).dequantize(bytes.data(), values.data(), kValues);
    benchmark::ClobberMemory();
  }
  ReportRates(state, {.bytes = static_cast<double>(kValues * sizeof(float))});
}

}  // namespace

// The scalar code is no kernel variant's.
void RegisterBenchmarks(Variant) {
  for (const Format format : kAllFormats) {
    const std::string name = Traits(format).name;
    benchmark::RegisterBenchmark("decode/" + name, [=](benchmark::State& state) { Decode(state, format); });
    if (Traits(format).quantize == nullptr) continue;
    benchmark::RegisterBenchmark("encode/" + name, [=](benchmark::State& state) { Encode(state, format); });
  }
}

}  // namespace moonlit
