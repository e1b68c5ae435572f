// SPDX-License-Identifier: Apache-2.0
// Speed of single product kernels on one core, to tune them:  matmul_bench [variant] [format ...]
// Prints GOPS (two a multiply-add), the share of the register-only peak of vpdpbusd where that is known, and for one row the
// bytes of packed weights read a second. Weights of 2048 x 8192 are spread over copies larger than the caches.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <vector>

#include "kernels/matmul/matmul.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include "kernels/matmul/peak_x86.h"
#endif

namespace moonlit {
namespace {

double Now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Aligned {
  explicit Aligned(size_t bytes) : data(static_cast<uint8_t*>(aligned_alloc(64, (bytes + 63) / 64 * 64))) {
    memset(data, 1, bytes);
  }
  ~Aligned() { free(data); }
  uint8_t* data;
};

void Bench(Variant variant, Format format, double peak) {
  const size_t n = 2048, k = 8192;
  const ProductKernel& kernel = GetProductKernel(variant, format);
  const size_t tiles = n / kernel.n_tile;
  const size_t tile_bytes = kernel.tile_bytes(k);
  const size_t row_bytes = RowBytes(format, k);
  const size_t copies = std::max<size_t>(2, (size_t{160} << 20) / (tiles * tile_bytes));
  std::vector<uint8_t> rows(kernel.n_tile * row_bytes);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint8_t>(i % 61);
  Aligned weights(copies * tiles * tile_bytes);
  double start = Now();
  for (size_t t = 0; t < copies * tiles; ++t) {
    kernel.pack_tile(rows.data(), row_bytes, kernel.n_tile, k, weights.data + t * tile_bytes);
  }
  printf("%-22s pack %6.2f GB/s\n", kernel.name,
         1e-9 * static_cast<double>(copies * tiles * tile_bytes) / (Now() - start));
  for (size_t m : {1, 2, 4, 7, 16, 128, 512}) {
    std::vector<float> x(m * k, 1.0f), out(m * n);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 29) - 14.0f;
    Aligned memory(A8Bytes(m, k));
    ProductArgs args = {};
    args.k = k;
    args.n = n;
    args.tile_end = tiles;
    args.rows = m;
    args.a8 = MakeA8View(memory.data, m, k);
    args.x = x.data();
    args.x_stride = k;
    args.out = out.data();
    args.out_stride = n;
    start = Now();
    GetProductTable(variant).quantize_a8(x.data(), k, m, k, args.a8);
    const double quantize = Now() - start;
    double best = 1e9, seconds = 0.0;
    for (size_t pass = 0; pass < 40 && (pass < 3 || seconds < 0.4); ++pass) {
      args.weights = weights.data + pass % copies * tiles * tile_bytes;
      start = Now();
      kernel.multiply(args);
      const double s = Now() - start;
      best = std::min(best, s);
      seconds += s;
    }
    const double gops = 2e-9 * static_cast<double>(m * n * k) / best;
    printf("  M %4zu  %8.1f GOPS  %5.1f%% of peak  %6.2f GB/s  (quantizing: %.2f%%)\n", m, gops,
           peak > 0 ? 100.0 * gops / peak : 0.0, 1e-9 * static_cast<double>(tiles * tile_bytes) / best,
           100.0 * quantize / best);
  }
}

}  // namespace
}  // namespace moonlit

int main(int argc, char** argv) {
  using namespace moonlit;
  Variant variant = SelectVariant(CpuFeatures());
  if (argc > 1 && !FindVariant(argv[1], &variant)) return 1;
  double peak = 0.0;
#if defined(__x86_64__) && defined(__GNUC__)
  if (CpuFeatures() & kAvx512Vnni) peak = MeasurePeakGops(Now);
#endif
  printf("%s, vpdpbusd peak %.0f GOPS\n", VariantName(variant), peak);
  std::vector<Format> formats = {Format::kQ4_0, Format::kQ8_0, Format::kQ6_K};
  if (argc > 2) formats.clear();
  for (int i = 2; i < argc; ++i) {
    Format format;
    if (FindFormatByName(argv[i], &format)) formats.push_back(format);
  }
  for (Format format : formats) Bench(variant, format, peak);
}
