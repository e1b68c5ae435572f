// SPDX-License-Identifier: Apache-2.0
// Masks and variants of attention that models use, each in closed form and against float64: windows of every width, chunks,
// prefixes that see themselves, sequences side by side, ALiBi, scales, latent attention.
#include <math.h>

#include <algorithm>

#include "kernels/attention/reference.h"
#include "kernels/attention/strided.h"
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

struct Interval {
  int64_t first, last;
};

constexpr size_t kTokens = 140;

// All scores are equal and V is one-hot by slot % 32, so the outputs count the slots that a row sees: an interval that is off
// by one is off by 1 / n, far beyond rounding.
void ExpectCounts(Variant variant, CacheType type, const std::vector<Interval>& intervals, const char* what) {
  std::vector<float> values(kTokens * 32, 0.0f);
  for (size_t t = 0; t < kTokens; ++t) values[t * 32 + t % 32] = 1.0f;
  const Cache cache(ShapeOf(type, 16, 32), variant, std::vector<float>(kTokens * 16, 0.0f), values);
  const float one = cache.values()[0];  // Q4_0 holds 7 / 7.5
  for (size_t begin = 0; begin < intervals.size(); begin += kAttentionMaxRows) {
    const size_t count = std::min(kAttentionMaxRows, intervals.size() - begin);
    std::vector<Row> rows(count);
    for (size_t r = 0; r < count; ++r) {
      rows[r].q.assign(16, 1.0f);
      rows[r].first = intervals[begin + r].first;
      rows[r].last = intervals[begin + r].last;
    }
    const std::vector<float> out = RunRows(variant, cache, rows, Options());
    for (size_t r = 0; r < count; ++r) {
      std::vector<int> seen(32, 0);
      int all = 0;
      for (int64_t j = std::max<int64_t>(0, rows[r].first); j < rows[r].last; ++j) ++seen[j % 32], ++all;
      for (size_t d = 0; d < 32; ++d) {
        const double expected = all == 0 ? 0 : static_cast<double>(one) * seen[d] / all;
        ASSERT_NEAR(expected, out[r * 32 + d], 4e-3 * expected)
            << VariantName(variant) << " " << what << " row " << begin + r << " dim " << d;
      }
    }
  }
}

// The same intervals on random data: the design's bound for all rows together. It is an average over many keys, so a single
// row among thousands, some of which see only a few keys, gets twice as much.
void ExpectReference(Variant variant, CacheType type, const std::vector<Interval>& intervals, const char* what) {
  const Cache cache(ShapeOf(type, 48, 64), variant, kTokens, 21);
  Options options;
  options.scale = 1 / sqrtf(48);
  for (size_t begin = 0; begin < intervals.size(); begin += kAttentionMaxRows) {
    const size_t count = std::min(kAttentionMaxRows, intervals.size() - begin);
    std::vector<Row> rows = CausalRows(count, 48, 0, 22);
    for (size_t r = 0; r < count; ++r) {
      rows[r].first = std::max<int64_t>(0, intervals[begin + r].first);
      rows[r].last = intervals[begin + r].last;
    }
    const std::vector<float> out = RunRows(variant, cache, rows, options);
    std::vector<double> all;
    for (size_t r = 0; r < count; ++r) {
      const std::vector<double> expected = Expected(cache, rows[r], options);
      ASSERT_LE(RelativeError(&out[r * 64], expected), 2 * Bound(type, variant, 1))
          << VariantName(variant) << " " << what << " row " << begin + r;
      all.insert(all.end(), expected.begin(), expected.end());
    }
    ASSERT_LE(RelativeError(out.data(), all), Bound(type, variant, 1)) << VariantName(variant) << " " << what;
  }
}

class AttentionVariants : public testing::TestWithParam<CacheType> {
 protected:
  void Check(const std::vector<Interval>& intervals, const char* what) {
    for (Variant variant : RunnableVariants()) {
      ExpectCounts(variant, GetParam(), intervals, what);
      ExpectReference(variant, GetParam(), intervals, what);
    }
  }
};

TEST_P(AttentionVariants, CausalAtEveryPosition) {
  std::vector<Interval> intervals;
  for (int64_t t = 0; t < int64_t{kTokens}; ++t) intervals.push_back({0, t + 1});
  Check(intervals, "causal");
}

// A window of W counts the token itself: key j is visible to query i iff 0 <= i - j < W.
TEST_P(AttentionVariants, WindowsOfEveryWidth) {
  for (int64_t i : {0, 63, 64, 139}) {
    std::vector<Interval> intervals;
    for (int64_t width = 1; width <= int64_t{kTokens} + 10; ++width) intervals.push_back({i + 1 - width, i + 1});
    Check(intervals, "window");
  }
}

TEST_P(AttentionVariants, BothEndsAnywhere) {
  std::vector<Interval> intervals;
  for (int64_t first : {0, 1, 15, 16, 17, 62, 63, 64, 65, 127, 128, 129}) {
    for (int64_t last : {1, 16, 31, 32, 33, 63, 64, 65, 66, 127, 128, 129, 140}) intervals.push_back({first, last});
  }
  for (Variant variant : RunnableVariants()) ExpectCounts(variant, GetParam(), intervals, "ends");
}

// Llama 4's chunked layers: a query sees its own chunk up to itself.
TEST_P(AttentionVariants, Chunks) {
  for (int64_t chunk : {1, 7, 16, 50, 64, 100}) {
    std::vector<Interval> intervals;
    for (int64_t t = 0; t < int64_t{kTokens}; ++t) intervals.push_back({t / chunk * chunk, t + 1});
    Check(intervals, "chunks");
  }
}

// A prefix whose tokens see each other in both directions (an image, an instruction), then causal.
TEST_P(AttentionVariants, PrefixBothWays) {
  for (int64_t prefix : {1, 16, 40, 64, 100}) {
    std::vector<Interval> intervals;
    for (int64_t t = 0; t < int64_t{kTokens}; ++t) intervals.push_back({0, std::max(prefix, t + 1)});
    Check(intervals, "prefix");
  }
}

// Several sequences in one batch: each sees its own block, causally.
TEST_P(AttentionVariants, SequencesSideBySide) {
  const int64_t starts[] = {0, 1, 18, 64, 100, 139};
  std::vector<Interval> intervals;
  for (int64_t t = 0; t < int64_t{kTokens}; ++t) {
    intervals.push_back({*(std::upper_bound(std::begin(starts), std::end(starts), t) - 1), t + 1});
  }
  Check(intervals, "blocks");
}

// Keys of 0: the weights are powers of r = exp(-slope), and of n keys the latest m have (1 - r^m) / (1 - r^n) of them.
TEST_P(AttentionVariants, AlibiIsAGeometricSeries) {
  const int64_t n = 130;
  for (Variant variant : RunnableVariants()) {
    for (int64_t m : {1, 20, 64, 129}) {
      std::vector<float> values(n * 32, 0.0f);
      for (int64_t t = n - m; t < n; ++t) std::fill_n(&values[static_cast<size_t>(t) * 32], 32, 1.0f);
      const Cache cache(ShapeOf(GetParam(), 8, 32), variant, std::vector<float>(n * 8, 0.0f), values);
      std::vector<Row> rows = CausalRows(4, 8, n, 1);
      const float slopes[] = {0.5f, 0.0625f, 0.00390625f, 1.0f};  // of 8 heads: 2^-1, 2^-4, 2^-8
      for (size_t r = 0; r < 4; ++r) rows[r].slope = slopes[r];
      rows[1].position += 7;  // a distance that all keys share cancels
      Options options;
      options.alibi = true;
      const std::vector<float> out = RunRows(variant, cache, rows, options);
      for (size_t r = 0; r < 4; ++r) {
        const double s = slopes[r], one = cache.values()[(n - 1) * 32];
        const double expected = one * expm1(-s * static_cast<double>(m)) / expm1(-s * static_cast<double>(n));
        EXPECT_NEAR(expected, out[r * 32], Bound(GetParam(), variant, 1))
            << VariantName(variant) << " m " << m << " " << s;
      }
    }
  }
}

// Two keys, products 0 and 2: the second has weight 1 / (1 + exp(-2 scale)). Powers of two are exact in every type.
TEST_P(AttentionVariants, ScaleOfTwoKeys) {
  for (Variant variant : RunnableVariants()) {
    for (float scale : {0.0f, 0.125f, 0.5f, 1.0f, 5.0f, 40.0f, -1.0f}) {
      CacheShape shape = ShapeOf(GetParam(), 1, 32);
      shape.key_type = CacheType::kF32;
      std::vector<float> values(64, 0.0f);
      std::fill_n(&values[32], 32, 1.0f);
      const Cache cache(shape, variant, {0.0f, 1.0f}, values);
      Row row;
      row.q = {2.0f};
      row.last = 2;
      Options options;
      options.scale = scale;
      const double expected = cache.values()[32] / (1 + exp(-2.0 * scale));
      EXPECT_NEAR(expected, RunRows(variant, cache, {row}, options)[0], Bound(GetParam(), variant, 1))
          << VariantName(variant) << " scale " << scale;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionVariants, testing::ValuesIn(kAllCacheTypes),
                         [](const auto& info) { return std::string(CacheTypeName(info.param)); });

// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434) in its absorbed form: the cache holds a latent c of 512 and a
// rotated key of 64 a token, which all heads share; W_uk is multiplied into the query and W_uv applied after. The judge is the
// plain form in float64: k = [W_uk c, k_rope], v = W_uv c for each head.
struct Latent {
  static constexpr size_t kLatent = 512, kRope = 64, kNope = 16, kValue = 8, kHeads = 5, kN = 70;
  std::vector<float> cache = NormalValues(kN * (kLatent + kRope), 31);
  std::vector<float> w_uk = NormalValues(kHeads * kNope * kLatent, 32, 1 / sqrtf(kLatent));
  std::vector<float> w_uv = NormalValues(kHeads * kValue * kLatent, 33, 1 / sqrtf(kLatent));
  std::vector<float> q = NormalValues(kHeads * (kNope + kRope), 34);
  double scale = 1 / sqrt(double{kNope + kRope});

  // [kValue]
  std::vector<double> Plain(size_t head) const {
    std::vector<double> scores(kN), out(kValue, 0.0);
    double sum = 0;
    const float* query = &q[head * (kNope + kRope)];
    for (size_t t = 0; t < kN; ++t) {
      const float* c = &cache[t * (kLatent + kRope)];
      double dot = 0;
      for (size_t i = 0; i < kNope; ++i) {
        double key = 0;
        for (size_t j = 0; j < kLatent; ++j) key += double{w_uk[(head * kNope + i) * kLatent + j]} * c[j];
        dot += query[i] * key;
      }
      for (size_t i = 0; i < kRope; ++i) dot += double{query[kNope + i]} * c[kLatent + i];
      scores[t] = exp(dot * scale);
      sum += scores[t];
    }
    for (size_t t = 0; t < kN; ++t) {
      for (size_t i = 0; i < kValue; ++i) {
        double value = 0;
        for (size_t j = 0; j < kLatent; ++j) {
          value += double{w_uv[(head * kValue + i) * kLatent + j]} * cache[t * (kLatent + kRope) + j];
        }
        out[i] += scores[t] / sum * value;
      }
    }
    return out;
  }

  // [kHeads, kLatent + kRope]
  std::vector<float> AbsorbedQueries() const {
    std::vector<float> absorbed(kHeads * (kLatent + kRope));
    for (size_t h = 0; h < kHeads; ++h) {
      for (size_t j = 0; j < kLatent; ++j) {
        double sum = 0;
        for (size_t i = 0; i < kNope; ++i) {
          sum += double{w_uk[(h * kNope + i) * kLatent + j]} * q[h * (kNope + kRope) + i];
        }
        absorbed[h * (kLatent + kRope) + j] = static_cast<float>(sum);
      }
      std::copy_n(&q[h * (kNope + kRope) + kNope], kRope, &absorbed[h * (kLatent + kRope) + kLatent]);
    }
    return absorbed;
  }
};

TEST(AttentionLatent, AbsorbedIsPlain) {
  const Latent latent;
  const std::vector<float> q = latent.AbsorbedQueries();
  constexpr size_t kWidth = Latent::kLatent + Latent::kRope;
  for (Variant variant : RunnableVariants()) {
    std::vector<float> out(Latent::kHeads * Latent::kLatent);
    StridedAttentionArgs args = {};
    args.variant = variant;
    args.tokens = 1, args.context = Latent::kN;
    args.heads = Latent::kHeads, args.kv_heads = 1;
    args.key_dim = kWidth, args.value_dim = Latent::kLatent;
    args.q = {q.data(), ElementType::kF32, Latent::kHeads * kWidth, kWidth};
    args.k = {latent.cache.data(), ElementType::kF32, kWidth, kWidth};
    args.v = args.k;  // values are a prefix of the keys
    args.out = out.data();
    args.out_token_stride = Latent::kHeads * Latent::kLatent, args.out_head_stride = Latent::kLatent;
    args.key_type = args.value_type = CacheType::kF32;
    args.scale = static_cast<float>(latent.scale);
    args.first_slot = Latent::kN - 1;
    args.causal = true;
    ASSERT_EQ(nullptr, CheckStridedAttention(args));
    AlignedBytes scratch(StridedAttentionScratchBytes(args), 0xFF);
    StridedAttention(args, scratch.data());
    for (size_t h = 0; h < Latent::kHeads; ++h) {
      const std::vector<double> expected = latent.Plain(h);
      std::vector<float> projected(Latent::kValue);
      for (size_t i = 0; i < Latent::kValue; ++i) {
        double sum = 0;
        for (size_t j = 0; j < Latent::kLatent; ++j) {
          sum += double{latent.w_uv[(h * Latent::kValue + i) * Latent::kLatent + j]} * out[h * Latent::kLatent + j];
        }
        projected[i] = static_cast<float>(sum);
      }
      // W_uv cancels most of the output's length (a mean of 70 random vectors seen from 8 sides): ten times the bound.
      EXPECT_LE(RelativeError(projected.data(), expected), 2e-5) << VariantName(variant) << " head " << h;
    }
  }
}

// The same shape against float64 for every cache type: 64 heads of one KV head, values a prefix of the keys.
TEST(AttentionLatent, EveryCacheType) {
  const std::vector<float> latent = NormalValues(150 * 576, 41);
  std::vector<float> values(150 * 512);
  for (size_t t = 0; t < 150; ++t) std::copy_n(&latent[t * 576], 512, &values[t * 512]);
  for (Variant variant : RunnableVariants()) {
    for (CacheType type : kAllCacheTypes) {
      const Cache cache(ShapeOf(type, 576, 512), variant, latent, values);
      const std::vector<Row> rows = CausalRows(64, 576, 150, 42);
      Options options;
      options.scale = 1 / sqrtf(576);
      const std::vector<float> out = RunRows(variant, cache, rows, options);
      for (size_t r = 0; r < rows.size(); r += 9) {
        EXPECT_LE(RelativeError(&out[r * 512], Expected(cache, rows[r], options)), Bound(type, variant, 1))
            << Describe(variant, ShapeOf(type, 576, 512)) << " row " << r;
      }
    }
  }
}

}  // namespace
}  // namespace moonlit
