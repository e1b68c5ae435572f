// SPDX-License-Identifier: Apache-2.0
// The numeric contract: a row's bits depend on its query, the cache's values and its interval, and on nothing else.
#include <math.h>

#include <algorithm>

#include "tests/attention/fixture.h"

namespace moonlit {
namespace {

class AttentionBits : public testing::TestWithParam<CacheType> {
 protected:
  CacheShape Shape(uint32_t key_dim = 48, uint32_t value_dim = 80, uint32_t page_tokens = 64) const {
    CacheShape shape;
    shape.key_type = shape.value_type = GetParam();
    shape.key_dim = key_dim;
    shape.value_dim = value_dim;
    shape.page_tokens = page_tokens;
    return shape;
  }
};

Options PlainOptions() {
  Options options;
  options.scale = 0.25f;
  return options;
}

// `tokens` query tokens of `group` heads, the last at slot `tokens_in_cache` - 1, as prefill makes them.
std::vector<Row> PrefillRows(size_t tokens, size_t group, size_t key_dim, size_t tokens_in_cache, int64_t window) {
  std::vector<Row> rows = CausalRows(tokens * group, key_dim, 0, 77);
  for (size_t r = 0; r < rows.size(); ++r) {
    const int64_t position = static_cast<int64_t>(tokens_in_cache - tokens + r / group);
    rows[r].position = position;
    rows[r].last = position + 1;
    rows[r].first = window == 0 ? 0 : position + 1 - window;
    rows[r].slope = 0.01f * static_cast<float>(r % group + 1);
    rows[r].sink = 0.5f;
  }
  return rows;
}

void ExpectAlone(Variant variant, const Cache& cache, const std::vector<Row>& rows, const Options& options) {
  const size_t dim = cache.layout().value_dim;
  const std::vector<float> together = RunRows(variant, cache, rows, options);
  for (size_t r = 0; r < rows.size(); ++r) {
    const std::vector<float> alone = RunRows(variant, cache, {rows[r]}, options);
    ASSERT_TRUE(SameBits(alone.data(), &together[r * dim], dim))
        << VariantName(variant) << " row " << r << " of " << rows.size();
  }
}

TEST_P(AttentionBits, GroupsOfHeadsAloneAndTogether) {
  for (Variant variant : RunnableVariants()) {
    const Cache cache(Shape(), variant, 613, 1);
    for (size_t group = 1; group <= 8; ++group) {
      ExpectAlone(variant, cache, PrefillRows(1, group, 48, 613, 0), PlainOptions());
    }
  }
}

TEST_P(AttentionBits, PrefillAndDecode) {
  for (Variant variant : RunnableVariants()) {
    const Cache cache(Shape(), variant, 613, 2);
    for (size_t group : {1u, 3u, 7u}) {
      ExpectAlone(variant, cache, PrefillRows(60 / group, group, 48, 613, 0), PlainOptions());
      ExpectAlone(variant, cache, PrefillRows(60 / group, group, 48, 613, 37), PlainOptions());
      ExpectAlone(variant, cache, PrefillRows(60 / group, group, 48, 60 / group, 0), PlainOptions());
    }
  }
}

TEST_P(AttentionBits, EveryFeatureAtOnce) {
  Options options = PlainOptions();
  options.softcap = 5.0f;
  options.sinks = true;
  options.alibi = true;
  for (Variant variant : RunnableVariants()) {
    const Cache cache(Shape(33, 31), variant, 200, 3);
    ExpectAlone(variant, cache, PrefillRows(16, 4, 33, 200, 90), options);
  }
}

TEST_P(AttentionBits, AttendAndSegmentsWithMerge) {
  Options sinks = PlainOptions();
  sinks.sinks = true;
  for (Variant variant : RunnableVariants()) {
    for (size_t tokens : {1u, 511u, 512u, 513u, 1600u}) {
      const Cache cache(Shape(40, 24), variant, tokens, 4);
      std::vector<Row> rows = PrefillRows(1, 5, 40, tokens, 0);
      rows[3].first = static_cast<int64_t>(tokens) - 1;
      rows[4].first = rows[4].last;  // sees nothing
      for (const Options& options : {PlainOptions(), sinks}) {
        const std::vector<float> whole = RunRows(variant, cache, rows, options, Path::kAttend);
        const std::vector<float> merged = RunRows(variant, cache, rows, options, Path::kSegments);
        EXPECT_TRUE(SameBits(whole.data(), merged.data(), whole.size()))
            << VariantName(variant) << " tokens " << tokens;
      }
    }
  }
}

TEST_P(AttentionBits, PageSizes) {
  for (Variant variant : RunnableVariants()) {
    std::vector<float> first;
    for (uint32_t page_tokens : {64u, 128u, 256u}) {
      const Cache cache(Shape(48, 80, page_tokens), variant, 700, 5);
      const std::vector<float> out = RunRows(variant, cache, PrefillRows(10, 4, 48, 700, 300), PlainOptions());
      if (first.empty()) first = out;
      EXPECT_TRUE(SameBits(first.data(), out.data(), out.size())) << VariantName(variant) << " page " << page_tokens;
    }
  }
}

// Slots outside a row's interval hold NaN, and its neighbours in the call see some of them.
TEST_P(AttentionBits, InvisibleSlotsMayHoldAnything) {
  for (Variant variant : RunnableVariants()) {
    const size_t tokens = 150, dim = 40;
    const std::vector<float> keys = NormalValues(tokens * dim, 6);
    const std::vector<float> values = NormalValues(tokens * dim, 7);
    const Cache clean(Shape(40, 40), variant, keys, values);
    for (int64_t low : {0, 1, 17, 63, 64, 66}) {
      for (int64_t high : {67, 96, 127, 128, 129, 150}) {
        std::vector<float> bad_keys = keys, bad_values = values;
        for (size_t t = 0; t < tokens; ++t) {
          if (static_cast<int64_t>(t) >= low && static_cast<int64_t>(t) < high) continue;
          for (size_t i = 0; i < dim; ++i) bad_keys[t * dim + i] = bad_values[t * dim + i] = nanf("");
        }
        const Cache poisoned(Shape(40, 40), variant, bad_keys, bad_values, 0xFF);
        std::vector<Row> rows = CausalRows(5, dim, high, 8);
        for (Row& row : rows) row.first = low;
        rows[2].first = 0;  // may become NaN; the others may not
        rows[2].last = static_cast<int64_t>(tokens);
        const std::vector<float> expected = RunRows(variant, clean, rows, PlainOptions());
        const std::vector<float> out = RunRows(variant, poisoned, rows, PlainOptions());
        for (size_t r : {0u, 1u, 3u, 4u}) {
          ASSERT_TRUE(SameBits(&expected[r * dim], &out[r * dim], dim))
              << VariantName(variant) << " [" << low << ", " << high << ") row " << r;
        }
      }
    }
  }
}

// A cache of several KV heads, and `rows` queries of each that see slots up to the last.
struct ManyHeads {
  PageLayout layout;
  std::vector<AlignedBytes> memory;
  std::vector<const uint8_t*> pages;
  size_t rows;
  std::vector<float> queries, sinks, slopes;
  std::vector<int64_t> first, last, position;

  ManyHeads(const CacheShape& shape, Variant variant, size_t tokens, size_t row_count)
      : layout(LayoutOf(shape)),
        rows(row_count),
        sinks(NormalValues(shape.kv_heads * rows, 11)),
        slopes(NormalValues(shape.kv_heads * rows, 12, 0.01f)) {
    const AttentionTable& table = GetAttentionTable(variant);
    for (size_t token = 0; token < tokens; token += 16) {
      if (token % layout.page_tokens == 0) {
        memory.emplace_back(layout.page_bytes, 0);
        pages.push_back(memory.back().data());
      }
      const size_t count = std::min<size_t>(16, tokens - token);
      for (size_t head = 0; head < layout.kv_heads; ++head) {
        uint8_t* part = memory.back().data() + PagePartOffset(layout, 0, head);
        const auto seed = static_cast<uint32_t>(token * layout.kv_heads + head);
        const std::vector<float> keys = NormalValues(count * layout.key_dim, seed);
        const std::vector<float> values = NormalValues(count * layout.value_dim, seed + 1000000);
        table.pack_keys(layout, part, token % layout.page_tokens, count, keys.data(), layout.key_dim);
        table.pack_values(layout, part, token % layout.page_tokens, count, values.data(), layout.value_dim);
      }
    }
    queries = NormalValues(layout.kv_heads * rows * layout.key_dim, 13);
    for (size_t r = 0; r < rows; ++r) {
      first.push_back(r % 3 == 2 ? static_cast<int64_t>(tokens / 2) : 0);
      last.push_back(static_cast<int64_t>(tokens - r % 2));
      position.push_back(last.back() - 1);
    }
  }

  // [heads, rows, value_dim] of heads from `begin`, in calls of `heads_of_call`.
  std::vector<float> Run(Variant variant, size_t heads_of_call, Path path) const {
    const AttentionTable& table = GetAttentionTable(variant);
    const AlignedBytes scratch(table.scratch_bytes(layout), 0xFF);
    const size_t triple = AttentionTripleFloats(layout),
                 segments = pages.size() * layout.page_tokens / kAttentionSegment + 1;
    std::vector<float> out(layout.kv_heads * rows * layout.value_dim, nanf(""));
    for (size_t head = 0; head < layout.kv_heads; head += heads_of_call) {
      AttentionArgs args = {};
      args.heads = std::min<size_t>(heads_of_call, layout.kv_heads - head);
      const size_t count = args.heads * rows, begin = head * rows;
      std::vector<const float*> q;
      std::vector<float*> to;
      for (size_t r = begin; r < begin + count; ++r) {
        q.push_back(&queries[r * layout.key_dim]);
        to.push_back(&out[r * layout.value_dim]);
      }
      args.layout = &layout;
      args.pages = pages.data();
      args.part_offset = PagePartOffset(layout, 0, head);
      args.rows = rows;
      args.q = q.data();
      args.first = first.data();
      args.last = last.data();
      args.position = position.data();
      args.sinks = &sinks[begin];
      args.alibi_slopes = &slopes[begin];
      args.scale = 0.25f;
      args.out = path == Path::kAttend ? to.data() : nullptr;
      args.scratch = scratch.data();
      if (path == Path::kAttend) {
        table.attend(args);
        continue;
      }
      const AlignedBytes triples(segments * count * triple * sizeof(float), 0xFF);
      float* floats = reinterpret_cast<float*>(triples.data());
      for (size_t s = 0; s < segments; ++s) table.attend_segment(args, s, floats + s * count * triple);
      for (size_t r = 0; r < count; ++r)
        table.merge(layout, floats + r * triple, count * triple, segments, args.sinks[r], to[r]);
    }
    return out;
  }
};

TEST_P(AttentionBits, HeadsAloneAndTogether) {
  for (Variant variant : RunnableVariants()) {
    for (uint32_t page_tokens : {64u, 128u}) {
      for (size_t rows : {1u, 3u, 5u, 12u}) {
        CacheShape shape = Shape(40, 24, page_tokens);
        shape.kv_heads = 5;
        const ManyHeads heads(shape, variant, 600, rows);
        ASSERT_LE(5u, AttentionHeadsOfCall(rows));
        const std::vector<float> alone = heads.Run(variant, 1, Path::kAttend);
        for (size_t together : {2u, 5u}) {
          for (Path path : {Path::kAttend, Path::kSegments}) {
            const std::vector<float> out = heads.Run(variant, together, path);
            ASSERT_TRUE(SameBits(alone.data(), out.data(), out.size()))
                << VariantName(variant) << " rows " << rows << " heads " << together << " page " << page_tokens;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionBits, testing::ValuesIn(kAllCacheTypes),
                         [](const auto& info) { return std::string(CacheTypeName(info.param)); });

}  // namespace
}  // namespace moonlit
