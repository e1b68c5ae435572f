// SPDX-License-Identifier: Apache-2.0
// Sparse patterns: sinks with a window, and pages chosen by their key bounds. Both are exact when they cover the context.
#include <math.h>

#include <algorithm>

#include "kernels/attention/reference.h"
#include "kernels/attention/selection.h"
#include "kernels/attention/strided.h"
#include "tests/attention/fixture.h"

namespace moonlit {
namespace {

CacheShape ShapeOf(CacheType type, uint32_t dim) {
  CacheShape shape;
  shape.key_type = shape.value_type = type;
  shape.key_dim = shape.value_dim = dim;
  return shape;
}

// Float64 over the slots for which `sees` holds.
template <class Sees>
std::vector<double> ExpectedOver(const Cache& cache, const Row& row, const Options& options, Sees sees) {
  const size_t dim = cache.layout().key_dim;
  std::vector<float> keys, values;
  for (size_t j = 0; j < cache.tokens(); ++j) {
    if (!sees(static_cast<int64_t>(j))) continue;
    keys.insert(keys.end(), &cache.keys()[j * dim], &cache.keys()[j * dim] + dim);
    values.insert(values.end(), &cache.values()[j * dim], &cache.values()[j * dim] + dim);
  }
  std::vector<double> out(dim), scores(keys.size() / dim);
  ReferenceAttentionArgs args = {};
  args.q = row.q.data();
  args.keys = keys.data();
  args.values = values.data();
  args.key_dim = args.value_dim = dim;
  args.last = static_cast<int64_t>(scores.size());
  args.scale = options.scale;
  args.scores = scores.data();
  args.out = out.data();
  ReferenceAttention(args);
  return out;
}

// The design's bound for all rows together, and twice as much for a single one, which may see few keys.
template <class SeesOf>
void ExpectNear(Variant variant, const Cache& cache, const std::vector<Row>& rows, const std::vector<float>& out,
                const Options& options, SeesOf sees_of, const std::string& what) {
  const size_t dim = cache.layout().value_dim;
  const double bound = Bound(cache.layout().key_type, variant, 1);
  std::vector<double> all;
  for (size_t r = 0; r < rows.size(); ++r) {
    const std::vector<double> expected = ExpectedOver(cache, rows[r], options, sees_of(rows[r]));
    EXPECT_LE(RelativeError(&out[r * dim], expected), 2 * bound) << VariantName(variant) << what << " row " << r;
    all.insert(all.end(), expected.begin(), expected.end());
  }
  EXPECT_LE(RelativeError(out.data(), all), bound) << VariantName(variant) << what;
}

Options Scaled(size_t dim) {
  Options options;
  options.scale = 1 / sqrtf(static_cast<float>(dim));
  return options;
}

class AttentionSparse : public testing::TestWithParam<CacheType> {};

TEST_P(AttentionSparse, SinksAndWindowAgainstTheReference) {
  constexpr int64_t kTile = static_cast<int64_t>(kAttentionTile);
  for (Variant variant : RunnableVariants()) {
    const Cache cache(ShapeOf(GetParam(), 64), variant, 1400, 1);
    for (int64_t sinks : {kTile, 3 * kTile}) {
      for (int64_t width : {1, 50, 64, 700}) {
        std::vector<Row> rows = CausalRows(5, 64, 0, 2);
        Options options = Scaled(64);
        options.sink_slots = sinks;
        for (size_t r = 0; r < rows.size(); ++r) {
          rows[r].last = 1200 + 37 * static_cast<int64_t>(r);
          rows[r].first = rows[r].last - width;
        }
        rows[1].last = 20, rows[1].first = 19;  // inside the sinks: [0, 20)
        for (Path path : {Path::kAttend, Path::kSegments}) {
          const std::vector<float> out = RunRows(variant, cache, rows, options, path);
          const auto sees_of = [&](const Row& row) {
            return [&row, sinks](int64_t j) { return j < row.last && (j >= row.first || j < sinks); };
          };
          ExpectNear(variant, cache, rows, out, options, sees_of,
                     " sinks " + std::to_string(sinks) + " width " + std::to_string(width));
        }
      }
    }
  }
}

TEST_P(AttentionSparse, SinksAndWindowThatCoverEverythingChangeNoBit) {
  for (Variant variant : RunnableVariants()) {
    for (int64_t tokens : {1, 63, 64, 65, 700, 1100}) {
      const Cache cache(ShapeOf(GetParam(), 32), variant, static_cast<size_t>(tokens), 3);
      std::vector<Row> rows = CausalRows(6, 32, tokens, 4);
      const std::vector<float> plain = RunRows(variant, cache, rows, Scaled(32));
      // A window that begins inside, at the end of or before the sinks.
      for (int64_t first : {int64_t{0}, std::min<int64_t>(tokens - 1, 31), std::min<int64_t>(tokens - 1, 64)}) {
        Options options = Scaled(32);
        options.sink_slots = 64;
        for (Row& row : rows) row.first = first;
        for (Path path : {Path::kAttend, Path::kSegments}) {
          const std::vector<float> out = RunRows(variant, cache, rows, options, path);
          EXPECT_TRUE(SameBits(plain.data(), out.data(), plain.size())) << VariantName(variant) << " tokens " << tokens;
        }
      }
    }
  }
}

// Pages between sinks and window are not even looked up.
TEST_P(AttentionSparse, PagesBetweenAreNotTouched) {
  for (Variant variant : RunnableVariants()) {
    Cache cache(ShapeOf(GetParam(), 16), variant, 1280, 5);
    std::vector<Row> rows = CausalRows(3, 16, 1280, 6);
    for (Row& row : rows) row.first = 1216;
    Options options = Scaled(16);
    options.sink_slots = 64;
    const std::vector<float> whole = RunRows(variant, cache, rows, options);
    for (size_t p = 1; p < 19; ++p) cache.DropPage(p);
    EXPECT_TRUE(SameBits(whole.data(), RunRows(variant, cache, rows, options).data(), whole.size()));
    EXPECT_TRUE(SameBits(whole.data(), RunRows(variant, cache, rows, options, Path::kSegments).data(), whole.size()));
  }
}

TEST_P(AttentionSparse, TheLibrarySeesTheSame) {
  for (Variant variant : RunnableVariants()) {
    const size_t n = 700, dim = 16;
    const std::vector<float> q = NormalValues(n * dim, 1), k = NormalValues(n * dim, 2), v = NormalValues(n * dim, 3);
    std::vector<float> out(n * dim, nanf(""));
    StridedAttentionArgs args = {};
    args.variant = variant;
    args.tokens = args.context = n;
    args.heads = args.kv_heads = 1;
    args.key_dim = args.value_dim = dim;
    args.q = {q.data(), ElementType::kF32, dim, dim};
    args.k = {k.data(), ElementType::kF32, dim, dim};
    args.v = {v.data(), ElementType::kF32, dim, dim};
    args.out = out.data();
    args.out_token_stride = args.out_head_stride = dim;
    args.key_type = args.value_type = GetParam();
    args.scale = 0.25f;
    args.causal = true;
    args.window = 30;
    args.sink_slots = 64;
    AlignedBytes scratch(StridedAttentionScratchBytes(args), 0xFF);
    StridedAttention(args, scratch.data());
    const Cache cache(ShapeOf(GetParam(), 16), variant, k, v);
    Options options;
    options.scale = 0.25f;
    options.sink_slots = 64;
    for (size_t t = 0; t < n; t += 7) {
      Row row;
      row.q.assign(&q[t * dim], &q[t * dim] + dim);
      row.last = static_cast<int64_t>(t + 1);
      row.first = row.last - 30;
      const std::vector<float> expected = RunRows(variant, cache, {row}, options);
      ASSERT_TRUE(SameBits(expected.data(), &out[t * dim], dim)) << VariantName(variant) << " token " << t;
    }
  }
}

// A cache of full pages, and what BoundPages says about them.
struct Bounded {
  Cache cache;
  std::vector<float> bounds;

  Bounded(CacheType type, uint32_t dim, size_t pages, uint32_t seed, const std::vector<Row>& rows)
      : cache(ShapeOf(type, dim), RunnableVariants().front(), pages * 64, seed), bounds(pages) {
    for (size_t p = 0; p < pages; ++p) SummarizeKeys(cache.layout(), cache.page(p), 0);
    Bound(rows);
  }
  void Bound(const std::vector<Row>& rows) {
    std::vector<const float*> q;
    for (const Row& row : rows) q.push_back(row.q.data());
    PageBoundArgs args = {};
    args.layout = &cache.layout();
    args.pages = cache.pages();
    args.page_count = bounds.size();
    args.part_offset = PagePartOffset(cache.layout(), 0, 0);
    args.rows = rows.size();
    args.q = q.data();
    BoundPages(args, bounds.data());
  }
};

TEST_P(AttentionSparse, NoScoreExceedsItsPagesBound) {
  for (uint32_t dim : {1u, 7u, 40u, 64u, 576u}) {
    const std::vector<Row> rows = CausalRows(3, dim, 0, 7);
    const Bounded bounded(GetParam(), dim, 6, 8, rows);
    for (size_t p = 0; p < 6; ++p) {
      double largest = -INFINITY, limit = -INFINITY;
      for (const Row& row : rows) {
        double corner = 0;
        for (size_t i = 0; i < dim; ++i) {
          double low = INFINITY, high = -INFINITY;
          for (size_t t = p * 64; t < p * 64 + 64; ++t) {
            low = fmin(low, double{row.q[i]} * bounded.cache.keys()[t * dim + i]);
            high = fmax(high, double{row.q[i]} * bounded.cache.keys()[t * dim + i]);
          }
          corner += high;
        }
        limit = fmax(limit, corner);
        for (size_t t = p * 64; t < p * 64 + 64; ++t) {
          double dot = 0;
          for (size_t i = 0; i < dim; ++i) dot += double{row.q[i]} * bounded.cache.keys()[t * dim + i];
          largest = fmax(largest, dot);
        }
      }
      EXPECT_GE(bounded.bounds[p], largest);
      // And it is no more than the corner of the box, but for the allowance: 2^-23 (dim / 8 + 10) of at most 12 dim.
      EXPECT_NEAR(bounded.bounds[p], limit, (dim / 8 + 10) * 0x1p-22 * 12 * dim);
    }
  }
}

TEST_P(AttentionSparse, SelectedPagesAgainstTheReference) {
  for (Variant variant : RunnableVariants()) {
    const std::vector<Row> rows = CausalRows(4, 64, 1024, 9);
    Bounded bounded(GetParam(), 64, 16, 10, rows);
    std::vector<uint32_t> order(16);
    std::vector<const uint8_t*> selected(16);
    for (size_t budget : {3u, 5u, 10u, 15u}) {
      EXPECT_EQ(budget, SelectPages({budget, 1, 2}, bounded.bounds.data(), bounded.cache.pages(), 16, order.data(),
                                    selected.data()));
      Cache sparse = bounded.cache.WithPages(selected);
      for (Path path : {Path::kAttend, Path::kSegments}) {
        const std::vector<float> out = RunRows(variant, sparse, rows, Scaled(64), path);
        const auto sees_of = [&](const Row&) {
          return [&](int64_t j) { return selected[static_cast<size_t>(j) / 64] != nullptr; };
        };
        ExpectNear(variant, bounded.cache, rows, out, Scaled(64), sees_of, " budget " + std::to_string(budget));
      }
    }
  }
}

TEST_P(AttentionSparse, BudgetThatCoversEverythingChangesNoBit) {
  for (Variant variant : RunnableVariants()) {
    const std::vector<Row> rows = CausalRows(4, 32, 1024, 11);
    Bounded bounded(GetParam(), 32, 16, 12, rows);
    const std::vector<float> plain = RunRows(variant, bounded.cache, rows, Scaled(32));
    std::vector<uint32_t> order(16);
    std::vector<const uint8_t*> selected(16);
    for (size_t budget : {16u, 17u, 1000u}) {
      EXPECT_EQ(16u, SelectPages({budget, 1, 1}, bounded.bounds.data(), bounded.cache.pages(), 16, order.data(),
                                 selected.data()));
      const std::vector<float> out = RunRows(variant, bounded.cache.WithPages(selected), rows, Scaled(32));
      EXPECT_TRUE(SameBits(plain.data(), out.data(), plain.size())) << VariantName(variant);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionSparse, testing::ValuesIn(kAllCacheTypes),
                         [](const auto& info) { return std::string(CacheTypeName(info.param)); });

// A key that a query looks for is found in the page that has it, wherever that is.
TEST(AttentionSelection, FindsTheNeedle) {
  for (size_t page = 1; page < 30; ++page) {
    std::vector<float> keys = NormalValues(32 * 64 * 32, 13), values(32 * 64 * 32, 0.0f);
    const std::vector<Row> rows = CausalRows(2, 32, 32 * 64, 14);
    const size_t slot = page * 64 + page;
    for (size_t i = 0; i < 32; ++i) keys[slot * 32 + i] = 4 * rows[0].q[i], values[slot * 32 + i] = 1;
    Cache cache(ShapeOf(CacheType::kF32, 32), RunnableVariants().front(), keys, values);
    for (size_t p = 0; p < 32; ++p) SummarizeKeys(cache.layout(), cache.page(p), 0);
    const float* q[1] = {rows[0].q.data()};
    const PageLayout& layout = cache.layout();
    std::vector<float> bounds(32);
    BoundPages({&layout, cache.pages(), 32, PagePartOffset(layout, 0, 0), 1, q}, bounds.data());
    std::vector<uint32_t> order(32);
    std::vector<const uint8_t*> selected(32);
    SelectPages({4, 1, 2}, bounds.data(), cache.pages(), 32, order.data(), selected.data());
    EXPECT_NE(nullptr, selected[page]) << page;
    // Its score is 4 * 32, the others' about 6 at most: all weight is its.
    EXPECT_NEAR(1.0f, RunRows(RunnableVariants().front(), cache.WithPages(selected), {rows[0]}, Options())[0], 1e-5f);
  }
}

TEST(AttentionSelection, TiesGoToTheLowestIndex) {
  const uint8_t bytes[10] = {};
  const uint8_t* pages[10];
  for (size_t p = 0; p < 10; ++p) pages[p] = &bytes[p];
  const std::vector<float> bounds = {9, 1, 5, 5, 5, 7, 5, 5, 9, 9};
  std::vector<uint32_t> order(10);
  std::vector<const uint8_t*> selected(10);
  const auto kept = [&](PageBudget budget) {
    std::string text;
    const size_t count = SelectPages(budget, bounds.data(), pages, 10, order.data(), selected.data());
    for (size_t p = 0; p < 10; ++p) {
      if (selected[p] != nullptr) text += static_cast<char>('0' + p);
      EXPECT_TRUE(selected[p] == nullptr || selected[p] == pages[p]);
    }
    EXPECT_EQ(text.size(), count);
    return text;
  };
  EXPECT_EQ("9", kept({0, 0, 0}));  // the latest page is always there
  EXPECT_EQ("09", kept({1, 1, 1}));
  EXPECT_EQ("089", kept({3, 1, 1}));
  EXPECT_EQ("0589", kept({4, 1, 1}));
  EXPECT_EQ("02589", kept({5, 1, 1}));
  EXPECT_EQ("0234589", kept({7, 1, 2}));
  EXPECT_EQ("0123456789", kept({10, 1, 1}));
  EXPECT_EQ("0123456789", kept({3, 20, 20}));
  pages[5] = pages[0] = nullptr;  // holes
  EXPECT_EQ("289", kept({4, 1, 1}));
}

TEST(AttentionSelection, ANaNIsRead) {
  std::vector<Row> rows = CausalRows(1, 8, 0, 15);
  std::vector<float> keys = NormalValues(4 * 64 * 8, 16);
  keys[(2 * 64 + 9) * 8 + 3] = nanf("");
  Cache cache(ShapeOf(CacheType::kF32, 8), RunnableVariants().front(), keys, NormalValues(4 * 64 * 8, 17));
  for (size_t p = 0; p < 4; ++p) SummarizeKeys(cache.layout(), cache.page(p), 0);
  cache.DropPage(1);
  const float* q[1] = {rows[0].q.data()};
  float bounds[4];
  BoundPages({&cache.layout(), cache.pages(), 4, 0, 1, q}, bounds);
  EXPECT_TRUE(isfinite(bounds[0]) && isfinite(bounds[3]));
  EXPECT_EQ(-INFINITY, bounds[1]);
  EXPECT_EQ(INFINITY, bounds[2]);
}

// 0 times an infinite key is a NaN in the score, whichever of the two bounds is infinite.
TEST(AttentionSelection, ANaNOfAZeroTimesAnInfiniteKeyIsRead) {
  for (const float infinite : {-INFINITY, INFINITY}) {
    std::vector<Row> rows = CausalRows(1, 8, 0, 18);
    rows[0].q[3] = 0;
    std::vector<float> keys = NormalValues(2 * 64 * 8, 19);
    keys[(64 + 9) * 8 + 3] = infinite;
    Cache cache(ShapeOf(CacheType::kF32, 8), RunnableVariants().front(), keys, NormalValues(2 * 64 * 8, 20));
    for (size_t p = 0; p < 2; ++p) SummarizeKeys(cache.layout(), cache.page(p), 0);
    const float* q[1] = {rows[0].q.data()};
    float bounds[2];
    BoundPages({&cache.layout(), cache.pages(), 2, 0, 1, q}, bounds);
    EXPECT_TRUE(isfinite(bounds[0]));
    EXPECT_EQ(INFINITY, bounds[1]) << infinite;
  }
}

}  // namespace
}  // namespace moonlit
