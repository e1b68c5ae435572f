// SPDX-License-Identifier: Apache-2.0
// Products on one thread: every format at 1 row (decode), 8 (a small batch) and 512 (prefill), by the int8 or bf16 path and by the exact
// one; packing and unpacking of weights; quantization of activations.
#include <string.h>

#include <algorithm>
#include <string>

#include "kernels/cpu/bench_main.h"
#include "kernels/matmul/matmul.h"

namespace moonlit {
namespace {

constexpr size_t kN = 2048, kK = 2048;
// With one row weights come from memory as in a model: copies take turns until they are this large.
constexpr size_t kColdBytes = size_t{96} << 20;

// n rows in file format. 16 encoded rows take turns: encoding is slow, and its result does not matter here. Formats without an encoder
// get bytes whose scales are small numbers.
std::vector<uint8_t> FileRows(Format format, size_t n, size_t k) {
  const size_t row_bytes = RowBytes(format, k), distinct = std::min<size_t>(n, 16);
  const std::vector<float> values = BenchValues(distinct * k);
  std::vector<uint8_t> rows(n * row_bytes);
  if (Traits(format).quantize == nullptr) {
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint8_t>(i % 61);
    return rows;
  }
  for (size_t i = 0; i < n; ++i) {
    uint8_t* row = rows.data() + i * row_bytes;
    if (i < distinct) {
      Traits(format).quantize(values.data() + i * k, nullptr, row, k);
    } else {
      memcpy(row, row - distinct * row_bytes, row_bytes);
    }
  }
  return rows;
}

void Pack(const ProductKernel& kernel, Format format, const std::vector<uint8_t>& rows, uint8_t* packed) {
  const size_t row_bytes = RowBytes(format, kK);
  for (size_t row = 0; row < kN; row += kernel.n_tile) {
    const size_t valid = std::min<size_t>(kernel.n_tile, kN - row);
    kernel.pack_tile(rows.data() + row * row_bytes, row_bytes, valid, kK, packed);
    packed += kernel.tile_bytes(kK);
  }
}

size_t Tiles(const ProductKernel& kernel) { return (kN + kernel.n_tile - 1) / kernel.n_tile; }

void Multiply(benchmark::State& state, Variant variant, Format format, size_t rows, bool exact) {
  const ProductTable& table = GetProductTable(variant);
  const ProductKernel& kernel = GetProductKernel(variant, format);
  const size_t tiles = Tiles(kernel), bytes = tiles * kernel.tile_bytes(kK);
  const size_t copies = rows > 1 ? 1 : (kColdBytes + bytes - 1) / bytes;
  const AlignedBytes packed(copies * bytes), a8(A8Bytes(rows, kK));
  Pack(kernel, format, FileRows(format, kN, kK), packed.data());
  for (size_t copy = 1; copy < copies; ++copy) memcpy(packed.data() + copy * bytes, packed.data(), bytes);
  const std::vector<float> x = BenchValues(rows * kK);
  std::vector<float> out(rows * kN);
  ProductArgs args = {};
  args.k = kK;
  args.n = kN;
  args.tile_end = tiles;
  args.rows = rows;
  args.a8 = MakeA8View(a8.data(), rows, kK);
  args.x = x.data();
  args.x_stride = kK;
  args.out = out.data();
  args.out_stride = kN;
  table.quantize_a8(x.data(), kK, rows, kK, args.a8);
  size_t copy = 0;
  for (auto _ : state) {
    args.weights = packed.data() + copy * bytes;
    (exact ? kernel.multiply_exact : kernel.multiply)(args);
    benchmark::ClobberMemory();
    copy = copy + 1 < copies ? copy + 1 : 0;
  }
  state.SetLabel(exact ? "exact" : kernel.name);
  ReportRates(state, {.operations = 2.0 * static_cast<double>(rows * kN * kK),
                      .bytes = static_cast<double>(kN * RowBytes(format, kK))});
}

void PackTiles(benchmark::State& state, Variant variant, Format format) {
  const ProductKernel& kernel = GetProductKernel(variant, format);
  const std::vector<uint8_t> rows = FileRows(format, kN, kK);
  const AlignedBytes packed(Tiles(kernel) * kernel.tile_bytes(kK));
  for (auto _ : state) {
    Pack(kernel, format, rows, packed.data());
    benchmark::ClobberMemory();
  }
  ReportRates(state, {.bytes = static_cast<double>(rows.size())});
}

void UnpackRows(benchmark::State& state, Variant variant, Format format) {
  const ProductKernel& kernel = GetProductKernel(variant, format);
  const AlignedBytes packed(Tiles(kernel) * kernel.tile_bytes(kK));
  Pack(kernel, format, FileRows(format, kN, kK), packed.data());
  std::vector<float> values(kK);
  for (auto _ : state) {
    for (size_t row = 0; row < kernel.n_tile; ++row) kernel.unpack_row(packed.data(), row, kK, values.data());
    benchmark::DoNotOptimize(values.data());
    benchmark::ClobberMemory();
  }
  ReportRates(state, {.bytes = static_cast<double>(kernel.n_tile * kK * sizeof(float))});
}

void QuantizeActivations(benchmark::State& state, Variant variant, size_t rows) {
  const AlignedBytes a8(A8Bytes(rows, kK));
  const std::vector<float> x = BenchValues(rows * kK);
  const A8View view = MakeA8View(a8.data(), rows, kK);
  for (auto _ : state) {
    GetProductTable(variant).quantize_a8(x.data(), kK, rows, kK, view);
    benchmark::ClobberMemory();
  }
  ReportRates(state, {.bytes = static_cast<double>(rows * kK * sizeof(float))});
}

}  // namespace

void RegisterBenchmarks(Variant variant) {
  using benchmark::State;
  const std::string shape = std::to_string(kN) + "x" + std::to_string(kK);
  for (const Format format : kAllFormats) {
    const std::string name = std::string(Traits(format).name) + "/" + shape;
    for (const size_t rows : {1, 8, 512}) {
      benchmark::RegisterBenchmark("product/" + name + "/rows:" + std::to_string(rows),
                                   [=](State& state) { Multiply(state, variant, format, rows, false); });
    }
    benchmark::RegisterBenchmark("exact/" + name + "/rows:8",
                                 [=](State& state) { Multiply(state, variant, format, 8, true); });
    benchmark::RegisterBenchmark("pack/" + name, [=](State& state) { PackTiles(state, variant, format); });
    benchmark::RegisterBenchmark("unpack/" + name, [=](State& state) { UnpackRows(state, variant, format); });
  }
  for (const size_t rows : {1, 8, 512}) {
    benchmark::RegisterBenchmark("quantize_a8/k:" + std::to_string(kK) + "/rows:" + std::to_string(rows),
                                 [=](State& state) { QuantizeActivations(state, variant, rows); });
  }
}

}  // namespace moonlit
