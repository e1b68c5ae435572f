// SPDX-License-Identifier: Apache-2.0
// The page layout and the packers.
#include <math.h>
#include <string.h>

#include <utility>

#include "kernels/attention/page_offsets.h"
#include "tests/attention/fixture.h"

namespace moonlit {
namespace {

CacheShape ShapeOf(CacheType key, CacheType value, uint32_t key_dim, uint32_t value_dim, uint32_t page_tokens = 64) {
  CacheShape shape;
  shape.key_type = key;
  shape.value_type = value;
  shape.key_dim = key_dim;
  shape.value_dim = value_dim;
  shape.page_tokens = page_tokens;
  return shape;
}

class AttentionPages : public testing::TestWithParam<CacheType> {};

// Half a step of each type: the error of one stored value.
double StepOf(CacheType type, double largest) {
  switch (type) {
    case CacheType::kF32:
      return 0;
    case CacheType::kF16:
      return largest * 0x1p-11;
    case CacheType::kBF16:
      return largest * 0x1p-8;
    case CacheType::kQ8_0:
      return largest / 127 * (0.5 + 127 * 0x1p-11);  // and the F16 scale's own rounding
    case CacheType::kQ4_0:
      break;
  }
  return largest / 7.5 * (0.5 + 8 * 0x1p-11);
}

TEST_P(AttentionPages, ValuesComeBack) {
  std::vector<uint32_t> dims = {72, 80, 96, 112, 128, 192, 256, 320, 512, 576};
  for (uint32_t dim = 1; dim <= 64; ++dim) dims.push_back(dim);
  for (uint32_t dim : dims) {
    const CacheShape shape = ShapeOf(GetParam(), GetParam(), dim, dim + 1, 128);
    const std::vector<float> keys = NormalValues(200 * dim, dim);
    const std::vector<float> values = NormalValues(200 * (dim + 1), dim + 1);
    const Cache cache(shape, RunnableVariants().front(), keys, values);
    for (size_t i = 0; i < keys.size(); ++i) ASSERT_NEAR(keys[i], cache.keys()[i], StepOf(GetParam(), 6.0)) << i;
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], cache.values()[i], StepOf(GetParam(), 6.0)) << i;
  }
}

TEST_P(AttentionPages, TheSameBytesForEveryVariantAndChunk) {
  const CacheShape shape = ShapeOf(GetParam(), GetParam(), 40, 56, 64);
  const std::vector<float> keys = NormalValues(100 * 40, 1);
  const std::vector<float> values = NormalValues(100 * 56, 2);
  Cache first(shape, RunnableVariants().front(), keys, values);
  for (Variant variant : RunnableVariants()) {
    for (size_t chunk : {1u, 2u, 3u, 5u, 8u, 16u}) {
      Cache other(shape, variant, keys, values, 0, chunk);
      for (size_t p = 0; p < first.num_pages(); ++p) {
        EXPECT_EQ(0, memcmp(first.page(p), other.page(p), first.layout().page_bytes))
            << VariantName(variant) << " chunk " << chunk;
      }
    }
  }
}

// A page is zero but for the elements and the scales of written tokens.
TEST_P(AttentionPages, PaddingAndUnwrittenSlotsStayZero) {
  const size_t tokens = 20, key_dim = 33, value_dim = 19;
  const CacheShape shape = ShapeOf(GetParam(), GetParam(), key_dim, value_dim, 64);
  Cache cache(shape, RunnableVariants().front(), std::vector<float>(tokens * key_dim, 1.0f),
              std::vector<float>(tokens * value_dim, 1.0f));
  const PageLayout& layout = cache.layout();
  const uint8_t* part = cache.page(0);
  std::vector<bool> may_be_set(layout.page_bytes, false);
  const size_t g = ElementsInLane(GetParam());
  const size_t element_bytes = g == 8 ? 1 : 4 / g;
  const auto allow = [&](size_t offset, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) may_be_set[offset + i] = true;
  };
  for (size_t t = 0; t < tokens; ++t) {
    for (size_t i = 0; i < key_dim; ++i) {
      allow(4 * KeyLane(layout, t, i) + i % g * element_bytes % 4, element_bytes);
      if (IsQuantized(GetParam())) allow(layout.key_scale_offset + 2 * KeyScaleIndex(layout, t, i), 2);
    }
    for (size_t j = 0; j < value_dim; ++j) {
      allow(layout.value_offset + 4 * ValueLane(layout, t, j) + t % g * element_bytes % 4, element_bytes);
      if (IsQuantized(GetParam())) allow(layout.value_scale_offset + 2 * ValueScaleIndex(layout, t, j), 2);
    }
  }
  size_t set = 0;
  for (size_t i = 0; i < layout.page_bytes; ++i) {
    set += part[i] != 0;
    ASSERT_TRUE(may_be_set[i] || part[i] == 0) << i;
  }
  EXPECT_GE(set, tokens * (key_dim + value_dim) / (g == 8 ? 2 : 1));
}

TEST_P(AttentionPages, PagesOutsideTheIntervalAreNotTouched) {
  for (Variant variant : RunnableVariants()) {
    Cache cache(ShapeOf(GetParam(), GetParam(), 16, 16), variant, 640, 3);
    std::vector<Row> rows = CausalRows(5, 16, 320, 4);
    for (Row& row : rows) row.first = 192;
    const std::vector<float> whole = RunRows(variant, cache, rows, Options());
    for (size_t p = 0; p < cache.num_pages(); ++p) {
      if (p < 3 || p >= 5) cache.DropPage(p);
    }
    const std::vector<float> holes = RunRows(variant, cache, rows, Options());
    EXPECT_TRUE(SameBits(whole.data(), holes.data(), whole.size()));
    EXPECT_TRUE(SameBits(whole.data(), RunRows(variant, cache, rows, Options(), Path::kSegments).data(), whole.size()));
  }
}

TEST_P(AttentionPages, KeyBoundsAreTheExtremes) {
  const uint32_t dim = 24;
  Cache cache(ShapeOf(GetParam(), GetParam(), dim, dim), RunnableVariants().front(), 64, 5);
  SummarizeKeys(cache.layout(), cache.page(0), 0);
  const float* bounds = reinterpret_cast<const float*>(cache.page(0) + KeyBoundsOffset(cache.layout(), 0));
  for (size_t i = 0; i < dim; ++i) {
    float lowest = INFINITY, highest = -INFINITY;
    for (size_t t = 0; t < 64; ++t) {
      lowest = fminf(lowest, cache.keys()[t * dim + i]);
      highest = fmaxf(highest, cache.keys()[t * dim + i]);
    }
    EXPECT_EQ(lowest, bounds[i]);
    EXPECT_EQ(highest, bounds[dim + i]);
  }
}

// A page with `count` tokens in every part, and bounds of its keys once it is full.
AlignedBytes PageOf(const PageLayout& layout, Variant variant, size_t count, const std::vector<float>& numbers) {
  const AttentionTable& table = GetAttentionTable(variant);
  AlignedBytes page(layout.page_bytes, 0);
  for (size_t part = 0; part < size_t{layout.layers} * layout.kv_heads; ++part) {
    uint8_t* at = page.data() + part * layout.part_bytes;
    for (size_t t = 0; t < count; t += kPageGroup) {
      const size_t tokens = count - t < kPageGroup ? count - t : kPageGroup;
      const float* rows = numbers.data() + t + part;
      table.pack_keys(layout, at, t, tokens, rows, layout.key_dim);
      table.pack_values(layout, at, t, tokens, rows, layout.value_dim);
    }
    if (count == layout.page_tokens) SummarizeKeys(layout, page.data(), part * layout.part_bytes);
  }
  return page;
}

// The judge is a page that was never fuller.
TEST_P(AttentionPages, ClearedSlotsWereNeverWritten) {
  for (CacheType value : kAllCacheTypes) {
    for (const auto& [key_dim, value_dim] : {std::pair{1u, 1u}, std::pair{33u, 19u}, std::pair{64u, 80u}}) {
      PageLayout layout = LayoutOf(ShapeOf(GetParam(), value, key_dim, value_dim, 2 * kAttentionTile));
      layout.layers = layout.kv_heads = 2;
      ASSERT_TRUE(FinishPageLayout(&layout));
      const size_t tokens = layout.page_tokens;
      const std::vector<float> numbers = NormalValues((tokens + 4) * 80, key_dim);
      for (Variant variant : RunnableVariants()) {
        if (variant != RunnableVariants().front() && key_dim != 33) continue;
        for (size_t kept = 0; kept <= tokens; kept += kept < 20 ? 1 : 6) {
          const AlignedBytes never = PageOf(layout, variant, kept, numbers);
          const AlignedBytes cut = PageOf(layout, variant, tokens, numbers);
          ClearSlots(layout, cut.data(), kept);
          ASSERT_EQ(0, memcmp(never.data(), cut.data(), layout.page_bytes))
              << VariantName(variant) << ' ' << CacheTypeName(value) << ' ' << key_dim << ' ' << kept;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionPages, testing::ValuesIn(kAllCacheTypes),
                         [](const auto& info) { return std::string(CacheTypeName(info.param)); });

// Addresses written out by hand from the layout in page_layout.h.
TEST(AttentionLayout, ElementsLieWhereTheHeaderSays) {
  const PageLayout f32 = LayoutOf(ShapeOf(CacheType::kF32, CacheType::kF32, 5, 20));
  EXPECT_EQ((1 * 5 + 3) * 16 + 2u, KeyLane(f32, 18, 3));
  EXPECT_EQ(18 * 32 + 17u, ValueLane(f32, 18, 17));
  const PageLayout f16 = LayoutOf(ShapeOf(CacheType::kF16, CacheType::kF16, 5, 20));
  EXPECT_EQ((1 * 3 + 2) * 16 + 2u, KeyLane(f16, 18, 4));
  EXPECT_EQ(9 * 32 + 17u, ValueLane(f16, 19, 17));
  const PageLayout q8 = LayoutOf(ShapeOf(CacheType::kQ8_0, CacheType::kQ8_0, 40, 20));
  EXPECT_EQ((1 * 16 + 9) * 16 + 2u, KeyLane(q8, 18, 38));
  EXPECT_EQ(4 * 32 + 17u, ValueLane(q8, 19, 17));
  EXPECT_EQ((1 * 2 + 1) * 16 + 2u, KeyScaleIndex(q8, 18, 38));
  const PageLayout q4 = LayoutOf(ShapeOf(CacheType::kQ4_0, CacheType::kQ4_0, 40, 40));
  EXPECT_EQ((1 * 8 + 4) * 16 + 2u, KeyLane(q4, 18, 38));
  EXPECT_EQ(2 * 64 + 17u, ValueLane(q4, 19, 17));
  EXPECT_EQ(64 + 19u, ValueScaleIndex(q4, 19, 33));
}

TEST(AttentionLayout, OffsetsAreAlignedAndDoNotOverlap) {
  for (CacheType type : kAllCacheTypes) {
    for (uint32_t dim : {1u, 33u, 64u, 576u, 1024u}) {
      const PageLayout l = LayoutOf(ShapeOf(type, type, dim, dim, 192));
      const size_t values = static_cast<size_t>(dim) * 192 * BitsOf(type) / 8;
      EXPECT_EQ(0u, (l.key_scale_offset | l.value_offset | l.value_scale_offset | l.part_bytes | l.bounds_bytes) % 64);
      EXPECT_GE(l.bounds_bytes, 8 * dim);
      EXPECT_GE(l.key_scale_offset, values);
      EXPECT_GE(l.value_scale_offset, l.value_offset + values);
      if (IsQuantized(type)) {
        EXPECT_GE(l.value_offset, l.key_scale_offset + 192 * 2 * ((dim + 31) / 32));
        EXPECT_GE(l.part_bytes, l.value_scale_offset + 192 * 2 * ((dim + 31) / 32));
      }
    }
  }
}

TEST(AttentionLayout, RefusesWhatIsOutOfRange) {
  PageLayout good = LayoutOf(ShapeOf(CacheType::kF16, CacheType::kF16, 64, 64));
  const auto refuses = [&](auto change) {
    PageLayout bad = good;
    change(bad);
    return !FinishPageLayout(&bad);
  };
  EXPECT_FALSE(refuses([](PageLayout&) {}));
  EXPECT_TRUE(refuses([](PageLayout& l) { l.page_tokens = 0; }));
  EXPECT_TRUE(refuses([](PageLayout& l) { l.page_tokens = 65; }));
  EXPECT_TRUE(refuses([](PageLayout& l) { l.page_tokens = 0xFFFFFFC0u; }));
  EXPECT_TRUE(refuses([](PageLayout& l) { l.layers = 0; }));
  EXPECT_TRUE(refuses([](PageLayout& l) { l.kv_heads = 0; }));
  EXPECT_TRUE(refuses([](PageLayout& l) { l.key_dim = 0; }));
  EXPECT_TRUE(refuses([](PageLayout& l) { l.value_dim = 1025; }));
  EXPECT_TRUE(refuses([](PageLayout& l) { l.layers = l.kv_heads = 0xFFFFFFFFu; }));
}

TEST(AttentionLayout, NamesOfTypes) {
  for (CacheType type : kAllCacheTypes) {
    CacheType found = type == CacheType::kF32 ? CacheType::kF16 : CacheType::kF32;
    EXPECT_TRUE(FindCacheType(CacheTypeName(type), &found));
    EXPECT_EQ(type, found);
  }
  CacheType found = CacheType::kF32;
  EXPECT_TRUE(FindCacheType("Q8_0", &found));
  EXPECT_EQ(CacheType::kQ8_0, found);
  EXPECT_FALSE(FindCacheType("q8", &found));
  EXPECT_FALSE(FindCacheType("q8_0x", &found));
  EXPECT_FALSE(FindCacheType("", &found));
}

}  // namespace
}  // namespace moonlit
