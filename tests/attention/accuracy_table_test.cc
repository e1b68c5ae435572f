// SPDX-License-Identifier: Apache-2.0
// Prints the tables of docs/attention.md. Fails where a mean is beyond the design's bound, or the worst of 64 rows of all lengths
// beyond one and a half of it: rows differ, and the bound is made for typical ones.
#include <math.h>
#include <stdio.h>

#include <iterator>

#include "kernels/attention/strided.h"
#include "tests/attention/fixture.h"

namespace moonlit {
namespace {

constexpr uint32_t kDim = 128;
constexpr size_t kTokens = 4096, kRows = 64;

CacheShape ShapeOf(CacheType type) {
  CacheShape shape;
  shape.key_type = shape.value_type = type;
  shape.key_dim = shape.value_dim = kDim;
  return shape;
}

struct Errors {
  double mean;
  double worst;
};

// A problem's outputs in float64: a cache holds the same values for every variant (pages_test.cc).
using Reference = std::vector<std::vector<double>>;

Errors Measure(Variant variant, const Cache& cache, const std::vector<Row>& rows, const Options& options,
               Reference& reference) {
  if (reference.empty()) {
    for (const Row& row : rows) reference.push_back(Expected(cache, row, options));
  }
  const std::vector<float> out = RunRows(variant, cache, rows, options);
  Errors errors = {0, 0};
  for (size_t r = 0; r < rows.size(); ++r) {
    const double error = RelativeError(&out[r * kDim], reference[r]);
    errors.mean += error / static_cast<double>(rows.size());
    errors.worst = fmax(errors.worst, error);
  }
  return errors;
}

// Unit-normal data, scores with a standard deviation of `deviation`; every row sees another number of keys.
Errors MeasureNormal(Variant variant, CacheType type, int deviation, Reference& reference) {
  const Cache cache(ShapeOf(type), variant, kTokens, 1);
  std::vector<Row> rows = CausalRows(kRows, kDim, 0, 2);
  for (size_t r = 0; r < kRows; ++r) rows[r].last = static_cast<int64_t>((r + 1) * (kTokens / kRows));
  Options options;
  options.scale = static_cast<float>(deviation) / sqrtf(kDim);
  return Measure(variant, cache, rows, options, reference);
}

// Scores of about 1e4: keys of magnitude 300 for the winner.
Errors MeasureHuge(Variant variant, CacheType type, Reference& reference) {
  std::vector<float> keys = NormalValues(300 * kDim, 3, 10.0f);
  std::vector<Row> rows = CausalRows(4, kDim, 300, 5);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < kDim; ++i) keys[(60 + 61 * r) * kDim + i] = 300.0f * rows[r].q[i];
  }
  Options options;
  options.scale = 0.3f;
  const Cache cache(ShapeOf(type), variant, keys, NormalValues(300 * kDim, 4));
  return Measure(variant, cache, rows, options, reference);
}

TEST(AttentionAccuracyTable, IsWithinTheBounds) {
  printf("| variant | cache | σ 1: mean | worst | bound | σ 3: mean | worst | bound | scores of 1e4: worst |\n");
  printf("|---|---|---|---|---|---|---|---|---|\n");
  Reference references[3 * std::size(kAllCacheTypes)];
  for (Variant variant : RunnableVariants()) {
    for (CacheType type : kAllCacheTypes) {
      Reference* of_type = &references[3 * static_cast<size_t>(type)];
      const Errors one = MeasureNormal(variant, type, 1, of_type[0]);
      const Errors three = MeasureNormal(variant, type, 3, of_type[1]);
      const Errors huge = MeasureHuge(variant, type, of_type[2]);
      const double bound_one = Bound(type, variant, 1), bound_three = Bound(type, variant, 3);
      printf("| %s | %s | %.1e | %.1e | %.1e | %.1e | %.1e | %.1e | %.1e |\n", VariantName(variant),
             CacheTypeName(type), one.mean, one.worst, bound_one, three.mean, three.worst, bound_three, huge.worst);
      EXPECT_LE(one.mean, bound_one) << Describe(variant, ShapeOf(type));
      EXPECT_LE(one.worst, 1.5 * bound_one) << Describe(variant, ShapeOf(type));
      EXPECT_LE(three.mean, bound_three) << Describe(variant, ShapeOf(type));
      EXPECT_LE(three.worst, 1.5 * bound_three) << Describe(variant, ShapeOf(type));
      EXPECT_LE(huge.worst, 1e-2) << Describe(variant, ShapeOf(type));
    }
  }
}

// A thread's scratch is a budget: what takes more shall be a decision.
TEST(AttentionScratchTable, IsWithinTheBudget) {
  struct Shape {
    uint32_t key_dim, value_dim;
    size_t kernel_kib, strided_kib;
  };
  constexpr Shape kShapes[] = {{64, 64, 112, 440}, {128, 128, 190, 840}, {256, 256, 345, 1640}, {576, 512, 695, 3440}};
  printf("| K, V head size | cache | kernel, KiB | library function, KiB |\n|---|---|---|---|\n");
  for (const Shape& s : kShapes) {
    for (CacheType type : {CacheType::kF32, CacheType::kBF16, CacheType::kQ8_0}) {
      StridedAttentionArgs args = {};
      args.variant = RunnableVariants().front();
      args.tokens = args.context = args.heads = args.kv_heads = 1;
      args.key_dim = s.key_dim, args.value_dim = s.value_dim;
      args.key_type = args.value_type = type;
      CacheShape shape;
      shape.key_type = shape.value_type = type;
      shape.key_dim = s.key_dim, shape.value_dim = s.value_dim;
      const size_t kernel = GetAttentionTable(args.variant).scratch_bytes(LayoutOf(shape));
      const size_t strided = StridedAttentionScratchBytes(args);
      printf("| %u, %u | %s | %zu | %zu |\n", s.key_dim, s.value_dim, CacheTypeName(type), kernel >> 10, strided >> 10);
      EXPECT_LE(kernel, s.kernel_kib << 10);
      EXPECT_LE(strided, s.strided_kib << 10);
      EXPECT_GT(strided, kernel);
    }
  }
}

}  // namespace
}  // namespace moonlit
