// SPDX-License-Identifier: Apache-2.0
// Error of the fused kernels against float64 on the values that the cache holds, within the bounds of the design.
#include <math.h>

#include "kernels/base/float16.h"
#include "tests/attention/fixture.h"

namespace moonlit {
namespace {

// Worst error over the rows of one call.
double WorstError(Variant variant, const Cache& cache, const std::vector<Row>& rows, const Options& options) {
  const std::vector<float> out = RunRows(variant, cache, rows, options);
  double worst = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    worst = fmax(worst, RelativeError(&out[r * cache.layout().value_dim], Expected(cache, rows[r], options)));
  }
  return worst;
}

// Error of all rows taken as one long vector. The bounds are about rounding errors of many values that partly cancel; a
// row of three outputs that happen to be near 0 says nothing about them.
double JointError(Variant variant, const Cache& cache, const std::vector<Row>& rows, const Options& options) {
  const std::vector<float> out = RunRows(variant, cache, rows, options);
  std::vector<double> expected;
  for (const Row& row : rows) {
    const std::vector<double> one = Expected(cache, row, options);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  return RelativeError(out.data(), expected);
}

Options ScaledFor(uint32_t key_dim, int deviation) {
  Options options;
  options.scale = static_cast<float>(deviation) / sqrtf(static_cast<float>(key_dim));
  return options;
}

void CheckShape(const CacheShape& shape, size_t tokens, size_t rows, int deviation, uint32_t seed) {
  for (Variant variant : RunnableVariants()) {
    const Cache cache(shape, variant, tokens, seed);
    const std::vector<Row> queries = CausalRows(rows, shape.key_dim, static_cast<int64_t>(tokens), seed + 17);
    const Options options = ScaledFor(shape.key_dim, deviation);
    const bool few = shape.value_dim < 64;
    EXPECT_LE(few ? JointError(variant, cache, queries, options) : WorstError(variant, cache, queries, options),
              Bound(shape.key_type, variant, deviation))
        << Describe(variant, shape) << " tokens " << tokens << " deviation " << deviation;
  }
}

class AttentionAccuracy : public testing::TestWithParam<CacheType> {
 protected:
  CacheShape Shape(uint32_t key_dim, uint32_t value_dim) const {
    CacheShape shape;
    shape.key_type = shape.value_type = GetParam();
    shape.key_dim = key_dim;
    shape.value_dim = value_dim;
    return shape;
  }
};

TEST_P(AttentionAccuracy, EveryHeadSizeTo64) {
  for (uint32_t dim = 1; dim <= 64; ++dim) CheckShape(Shape(dim, dim), 130, 12, 1, dim);
}

TEST_P(AttentionAccuracy, HeadSizesOfRealModels) {
  for (uint32_t dim : {72u, 80u, 96u, 112u, 128u, 192u, 256u}) {
    CheckShape(Shape(dim, dim), 200, 5, 1, dim);
    CheckShape(Shape(dim, dim), 200, 5, 3, dim);
  }
}

TEST_P(AttentionAccuracy, KeysAndValuesOfDifferentSizes) {
  CheckShape(Shape(192, 128), 150, 4, 1, 1);
  CheckShape(Shape(576, 512), 150, 2, 1, 2);
  CheckShape(Shape(64, 17), 150, 4, 1, 3);
  CheckShape(Shape(7, 64), 150, 4, 1, 4);
}

TEST_P(AttentionAccuracy, Lengths) {
  for (size_t tokens : {1u, 2u, 15u, 16u, 17u, 63u, 64u, 65u, 511u, 512u, 513u, 1000u, 4100u}) {
    CheckShape(Shape(64, 64), tokens, 4, 1, static_cast<uint32_t>(tokens));
    CheckShape(Shape(64, 64), tokens, 4, 3, static_cast<uint32_t>(tokens));
  }
}

TEST_P(AttentionAccuracy, ManyRows) {
  for (size_t rows : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 12u, 31u, 64u}) CheckShape(Shape(40, 64), 140, rows, 1, 5);
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionAccuracy, testing::ValuesIn(kAllCacheTypes),
                         [](const auto& info) { return std::string(CacheTypeName(info.param)); });

TEST(AttentionAccuracyMixed, KeysAndValuesOfDifferentTypes) {
  for (Variant variant : RunnableVariants()) {
    for (CacheType key : kAllCacheTypes) {
      for (CacheType value : kAllCacheTypes) {
        CacheShape shape;
        shape.key_type = key;
        shape.value_type = value;
        const Cache cache(shape, variant, 150, 9);
        const std::vector<Row> rows = CausalRows(5, shape.key_dim, 150, 10);
        EXPECT_LE(WorstError(variant, cache, rows, ScaledFor(shape.key_dim, 1)),
                  fmax(Bound(key, variant, 1), Bound(value, variant, 1)))
            << Describe(variant, shape);
      }
    }
  }
}

// Keys of magnitude 300 and queries to match: scores far beyond what binary16 holds, with a clear winner, since
// rounding q to 8 bits moves a score of 1e4 by tens.
TEST(AttentionAccuracyMixed, ScoresOfTenThousand) {
  for (Variant variant : RunnableVariants()) {
    for (CacheType type : kAllCacheTypes) {
      CacheShape shape;
      shape.key_type = shape.value_type = type;
      shape.key_dim = shape.value_dim = 128;
      std::vector<float> keys = NormalValues(300 * 128, 3, 10.0f);
      const std::vector<float> values = NormalValues(300 * 128, 4);
      std::vector<Row> rows = CausalRows(4, 128, 300, 5);
      for (size_t r = 0; r < rows.size(); ++r) {
        for (size_t i = 0; i < 128; ++i) keys[(60 + 61 * r) * 128 + i] = 300.0f * rows[r].q[i];
      }
      Options options;
      options.scale = 0.3f;  // winner near 0.3 * 300 * 128 = 11520
      const Cache cache(shape, variant, keys, values);
      EXPECT_LE(WorstError(variant, cache, rows, options), 1e-2) << Describe(variant, shape);
    }
  }
}

// The reference of a segment follows a score that lies more than a factor of 2^8 above it: below that probabilities reach 256, above it
// all that was summed is rescaled. Tiles rise by nearly as much, by as much, by a little more and by far, once and again and again.
TEST(AttentionAccuracyMixed, ScoresThatRiseByAboutTwoToTheEighth) {
  constexpr size_t kTokens = 384, kDim = 64;
  Options options;
  options.scale = 0.693147181f;  // so that q . k is in units of log2
  Row row;
  row.q.assign(kDim, 0.0f);
  row.q[0] = 1.0f;
  row.last = kTokens;
  const std::vector<float> below = NormalValues(kTokens, 31), values = NormalValues(kTokens * kDim, 32);
  for (const float rise : {7.9f, 7.999f, 8.0f, 8.001f, 8.1f, 60.0f}) {
    for (const size_t rises : {1u, 5u}) {
      std::vector<float> keys(kTokens * kDim);
      for (size_t j = 0; j < kTokens; ++j) {
        const auto steps = static_cast<float>(j / kAttentionTile < rises ? j / kAttentionTile : rises);
        keys[j * kDim] = steps * rise - (j % kAttentionTile == 0 ? 0.0f : 0.5f * fabsf(below[j]));
      }
      for (Variant variant : RunnableVariants()) {
        for (CacheType type : kAllCacheTypes) {
          CacheShape shape;
          shape.key_type = shape.value_type = type;
          const Cache cache(shape, variant, keys, values);
          EXPECT_LE(WorstError(variant, cache, {row}, options), Bound(type, variant, 3))
              << Describe(variant, shape) << " rise " << rise << ", " << rises << " times";
        }
      }
    }
  }
}

// Numbers below 2^-14 are subnormal in F16 and a hundredth of a percent of unit-normal data. Whoever takes them for zeros
// loses the whole result here.
TEST(AttentionAccuracyMixed, SubnormalHalves) {
  constexpr size_t kTokens = 70, kDim = 64;
  CacheShape shape;
  shape.key_type = shape.value_type = CacheType::kF16;
  shape.key_dim = shape.value_dim = kDim;
  std::vector<float> keys = NormalValues(kTokens * kDim, 5), values = NormalValues(kTokens * kDim, 6);
  for (float& x : keys) x *= 0x1p-17f;
  for (float& x : values) x *= 0x1p-17f;
  Options options;
  options.scale = 0x1p17f / 8;
  for (Variant variant : RunnableVariants()) {
    const Cache cache(shape, variant, keys, values);
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(cache.keys()[i], F32FromF16(F16FromF32(keys[i]))) << VariantName(variant) << " key element " << i;
    }
    EXPECT_LE(WorstError(variant, cache, CausalRows(5, kDim, kTokens, 7), options), 2e-6) << VariantName(variant);
  }
}

// 6e4 is near the largest binary16; a sum of 4000 of them is far beyond it.
TEST(AttentionAccuracyMixed, LargeValuesOverManyKeys) {
  for (Variant variant : RunnableVariants()) {
    for (CacheType type : kAllCacheTypes) {
      CacheShape shape;
      shape.key_type = shape.value_type = type;
      const size_t tokens = 4096;
      const Cache cache(shape, variant, NormalValues(tokens * 64, 6), std::vector<float>(tokens * 64, 6e4f));
      const std::vector<Row> rows = CausalRows(4, 64, static_cast<int64_t>(tokens), 7);
      EXPECT_LE(WorstError(variant, cache, rows, ScaledFor(64, 1)), 1e-2) << Describe(variant, shape);
    }
  }
}

}  // namespace
}  // namespace moonlit
