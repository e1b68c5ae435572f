// SPDX-License-Identifier: Apache-2.0
// What a row sees and how its scores are shaped: windows, empty rows, sinks, soft caps, ALiBi, extreme scores.
#include <math.h>

#include "tests/attention/fixture.h"

namespace moonlit {
namespace {

CacheShape ShapeOf(CacheType type, uint32_t key_dim, uint32_t value_dim) {
  CacheShape shape;
  shape.key_type = shape.value_type = type;
  shape.key_dim = key_dim;
  shape.value_dim = value_dim;
  return shape;
}

class AttentionMasks : public testing::TestWithParam<CacheType> {};

// Values are one-hot bits of the slot number and all scores are equal, so an output tells how many slots of each kind
// were seen: a window that is off by one is off by 1 / n here, far beyond any rounding.
TEST_P(AttentionMasks, WindowsSeeExactlyTheirSlots) {
  const size_t tokens = 140;
  std::vector<float> values(tokens * 32, 0.0f);
  for (size_t t = 0; t < tokens; ++t) values[t * 32 + t % 32] = 1.0f;
  for (Variant variant : RunnableVariants()) {
    const Cache cache(ShapeOf(GetParam(), 16, 32), variant, std::vector<float>(tokens * 16, 0.0f), values);
    for (int64_t last : {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 140}) {
      std::vector<Row> rows;
      for (int64_t width : {1, 2, 3, 15, 16, 17, 31, 63, 64, 65, 66, 127, 128, 129, 200}) {
        Row row;
        row.q.assign(16, 1.0f);
        row.first = last - width;  // may be below 0
        row.last = last;
        rows.push_back(row);
      }
      const std::vector<float> out = RunRows(variant, cache, rows, Options());
      for (size_t r = 0; r < rows.size(); ++r) {
        const int64_t first = rows[r].first < 0 ? 0 : rows[r].first;
        std::vector<double> seen(32, 0.0);
        for (int64_t j = first; j < last; ++j) {
          // What the cache made of the 1 (Q4_0: 7 / 7.5).
          const double one = cache.values()[static_cast<size_t>(j * 32 + j % 32)];
          seen[static_cast<size_t>(j % 32)] += one / static_cast<double>(last - first);
        }
        for (size_t d = 0; d < 32; ++d) {
          ASSERT_NEAR(out[r * 32 + d], seen[d], 4e-3 * seen[d])
              << VariantName(variant) << " [" << first << ", " << last << ") " << d;
        }
      }
    }
  }
}

// What begins before slot 0, however far, begins at slot 0: in every tile and segment.
TEST_P(AttentionMasks, IntervalsFromTheLeastNumberOn) {
  for (Variant variant : RunnableVariants()) {
    const Cache cache(ShapeOf(GetParam(), 24, 20), variant, 600, 4);
    std::vector<Row> rows = CausalRows(3, 24, 600, 5), least = rows;
    for (Row& row : least) row.first = INT64_MIN;
    for (Path path : {Path::kAttend, Path::kSegments}) {
      const std::vector<float> out = RunRows(variant, cache, rows, Options(), path);
      const std::vector<float> from_least = RunRows(variant, cache, least, Options(), path);
      EXPECT_TRUE(SameBits(out.data(), from_least.data(), out.size())) << VariantName(variant);
    }
  }
}

TEST_P(AttentionMasks, RowsThatSeeNothingGiveZeros) {
  for (Variant variant : RunnableVariants()) {
    const Cache cache(ShapeOf(GetParam(), 24, 20), variant, 100, 1);
    std::vector<Row> rows = CausalRows(6, 24, 100, 2);
    rows[1].first = 100;
    rows[2].first = 50, rows[2].last = 50;
    rows[4].first = 70, rows[4].last = 3;
    for (bool sinks : {false, true}) {
      Options options;
      options.sinks = sinks;
      const std::vector<float> out = RunRows(variant, cache, rows, options);
      for (size_t r = 0; r < rows.size(); ++r) {
        double norm = 0;
        for (size_t d = 0; d < 20; ++d) norm += fabs(out[r * 20 + d]);
        if (r == 1 || r == 2 || r == 4) {
          EXPECT_EQ(0.0, norm);
        } else {
          EXPECT_GT(norm, 0.0);
          EXPECT_TRUE(isfinite(norm));
        }
      }
    }
  }
}

// All scores 0 and V = 1: the output is n / (n + exp(sink)).
TEST_P(AttentionMasks, SinksInClosedForm) {
  for (Variant variant : RunnableVariants()) {
    for (size_t tokens : {1u, 3u, 130u}) {
      const Cache cache(ShapeOf(GetParam(), 8, 32), variant, std::vector<float>(tokens * 8, 0.0f),
                        std::vector<float>(tokens * 32, 1.0f));
      for (float sink : {-INFINITY, 0.0f, 5.0f, 90.0f}) {
        for (size_t count : {1u, 7u}) {
          std::vector<Row> rows = CausalRows(count, 8, static_cast<int64_t>(tokens), 3);
          rows.back().first = static_cast<int64_t>(tokens) - 1;
          for (size_t r = 0; r < count; ++r) rows[r].sink = r % 2 == 0 ? sink : 1.0f;
          Options options;
          options.sinks = true;
          for (Path path : {Path::kAttend, Path::kSegments}) {
            const std::vector<float> out = RunRows(variant, cache, rows, options, path);
            for (size_t r = 0; r < count; ++r) {
              const double n = static_cast<double>(rows[r].last - rows[r].first);
              const double one = cache.values()[31];  // Q4_0 holds 7 / 7.5
              const double expected = one * n / (n + exp(static_cast<double>(rows[r].sink)));
              // Weights below 2^-126 are 0.
              EXPECT_NEAR(expected, out[r * 32 + 31], 3e-3 * expected + n * 0x1p-126)
                  << VariantName(variant) << " sink " << sink;
            }
          }
        }
      }
    }
  }
}

double ErrorWith(Variant variant, const Cache& cache, const Row& row, const Options& options, Path path) {
  const std::vector<float> out = RunRows(variant, cache, {row}, options, path);
  return RelativeError(out.data(), Expected(cache, row, options));
}

TEST_P(AttentionMasks, SoftcapAndAlibiAndSinksAgainstTheReference) {
  for (Variant variant : RunnableVariants()) {
    const Cache cache(ShapeOf(GetParam(), 64, 64), variant, 700, 4);
    for (int features = 0; features < 8; ++features) {
      Options options;
      options.scale = 0.125f;
      options.softcap = (features & 1) != 0 ? 2.0f : 0.0f;
      options.alibi = (features & 2) != 0;
      options.sinks = (features & 4) != 0;
      Row row = CausalRows(1, 64, 650, 5)[0];
      row.first = 31;
      row.position = 649;
      row.slope = 0.004f;
      row.sink = 2.5f;
      // A cap's tanh and a slope of up to 2.5 add roundings of the score: twice the bound.
      const double bound = 2 * Bound(GetParam(), variant, 1);
      EXPECT_LE(ErrorWith(variant, cache, row, options, Path::kAttend), bound)
          << VariantName(variant) << " " << features;
      EXPECT_LE(ErrorWith(variant, cache, row, options, Path::kSegments), bound)
          << VariantName(variant) << " " << features;
    }
  }
}

// Two keys, products 0 and x: the weight of the second is 1 / (1 + exp(-cap tanh(x / cap))).
TEST(AttentionShapes, SoftcapAtThreePoints) {
  for (Variant variant : RunnableVariants()) {
    for (float x : {0.0f, 10.0f, 1000.0f}) {
      const Cache cache(ShapeOf(CacheType::kF32, 1, 1), variant, {0.0f, x}, {0.0f, 1.0f});
      Row row;
      row.q = {1.0f};
      row.last = 2;
      Options options;
      options.softcap = 50.0f;
      const double expected = 1 / (1 + exp(-50 * tanh(x / 50.0)));
      EXPECT_NEAR(expected, RunRows(variant, cache, {row}, options)[0], 1e-6) << VariantName(variant) << " x " << x;
    }
  }
}

// Products that overflow f32 are the largest score there is: they share the weight among themselves.
TEST(AttentionShapes, InfiniteScores) {
  for (Variant variant : RunnableVariants()) {
    for (CacheType type : {CacheType::kF32, CacheType::kBF16}) {
      std::vector<float> keys(200, 0.5f), values(200);
      for (size_t t = 0; t < 200; ++t) values[t] = t < 100 ? 1.0f : 3.0f;
      keys[70] = keys[130] = 3e38f;
      keys[20] = keys[180] = -3e38f;
      const Cache cache(ShapeOf(type, 1, 1), variant, keys, values);
      Row row;
      row.q = {1e10f};
      row.last = 200;
      EXPECT_NEAR(2.0f, RunRows(variant, cache, {row}, Options())[0], 1e-6) << Describe(variant, ShapeOf(type, 1, 1));
      row.q = {-1e10f};
      EXPECT_NEAR(2.0f, RunRows(variant, cache, {row}, Options())[0], 1e-6) << Describe(variant, ShapeOf(type, 1, 1));
      row.q = {1e10f};
      row.first = 20;
      row.last = 21;  // only a score of minus infinity
      EXPECT_NEAR(1.0f, RunRows(variant, cache, {row}, Options())[0], 1e-6) << Describe(variant, ShapeOf(type, 1, 1));
    }
  }
}

// A NaN is shown, not hidden: in the query, in a key, in a value.
TEST_P(AttentionMasks, NaNStaysVisible) {
  for (Variant variant : RunnableVariants()) {
    const std::vector<float> keys = NormalValues(100 * 32, 1);
    const std::vector<float> values = NormalValues(100 * 32, 2);
    std::vector<Row> rows = CausalRows(3, 32, 100, 3);
    rows[1].q[7] = nanf("");
    const Cache cache(ShapeOf(GetParam(), 32, 32), variant, keys, values);
    const std::vector<float> out = RunRows(variant, cache, rows, Options());
    EXPECT_TRUE(isfinite(out[0]) && isnan(out[32]) && isfinite(out[64])) << VariantName(variant);
    std::vector<float> bad = keys;
    bad[80 * 32] = nanf("");
    const Cache bad_keys(ShapeOf(GetParam(), 32, 32), variant, bad, values);
    EXPECT_TRUE(isnan(RunRows(variant, bad_keys, {rows[0]}, Options())[5])) << VariantName(variant);
    bad = values;
    bad[80 * 32 + 5] = nanf("");
    const Cache bad_values(ShapeOf(GetParam(), 32, 32), variant, keys, bad);
    EXPECT_TRUE(isnan(RunRows(variant, bad_values, {rows[0]}, Options())[5])) << VariantName(variant);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionMasks, testing::ValuesIn(kAllCacheTypes),
                         [](const auto& info) { return std::string(CacheTypeName(info.param)); });

}  // namespace
}  // namespace moonlit
