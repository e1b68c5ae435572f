// SPDX-License-Identifier: Apache-2.0
// kernels/attention as a library: plain strided arrays give the bits of the paged path, in any split into tasks.
#include "kernels/attention/strided.h"

#include <math.h>

#include <algorithm>
#include <numeric>

#include "kernels/base/float16.h"
#include "tests/attention/fixture.h"

namespace moonlit {
namespace {

// Queries, keys and values with gaps between tokens and heads, so that a wrong stride reads a gap's NaN.
struct Arrays {
  size_t tokens, context, heads, kv_heads, key_dim, value_dim;
  std::vector<float> q, k, v, out;

  size_t key_stride() const { return key_dim + 3; }
  size_t value_stride() const { return value_dim + 5; }

  Arrays(size_t tokens, size_t context, size_t heads, size_t kv_heads, size_t key_dim, size_t value_dim, uint32_t seed)
      : tokens(tokens), context(context), heads(heads), kv_heads(kv_heads), key_dim(key_dim), value_dim(value_dim) {
    q = Spread(tokens * heads, key_dim, key_stride(), seed);
    k = Spread(context * kv_heads, key_dim, key_stride(), seed + 1);
    v = Spread(context * kv_heads, value_dim, value_stride(), seed + 2);
    out.assign(tokens * heads * value_stride(), nanf(""));
  }

  static std::vector<float> Spread(size_t rows, size_t dim, size_t stride, uint32_t seed) {
    const std::vector<float> dense = NormalValues(rows * dim, seed);
    std::vector<float> spread(rows * stride, nanf(""));
    for (size_t r = 0; r < rows; ++r) std::copy_n(&dense[r * dim], dim, &spread[r * stride]);
    return spread;
  }

  StridedAttentionArgs Args(Variant variant, CacheType type) {
    StridedAttentionArgs args = {};
    args.variant = variant;
    args.tokens = tokens, args.context = context;
    args.heads = heads, args.kv_heads = kv_heads;
    args.key_dim = key_dim, args.value_dim = value_dim;
    args.q = {q.data(), ElementType::kF32, heads * key_stride(), key_stride()};
    args.k = {k.data(), ElementType::kF32, kv_heads * key_stride(), key_stride()};
    args.v = {v.data(), ElementType::kF32, kv_heads * value_stride(), value_stride()};
    args.out = out.data();
    args.out_token_stride = heads * value_stride(), args.out_head_stride = value_stride();
    args.key_type = args.value_type = type;
    args.scale = 1 / sqrtf(static_cast<float>(key_dim));
    args.causal = true;
    args.first_slot = static_cast<int64_t>(context - tokens);
    return args;
  }

  // Of one KV head, without the gaps.
  std::vector<float> Dense(const std::vector<float>& spread, size_t head, size_t dim, size_t stride) const {
    std::vector<float> dense(context * dim);
    for (size_t t = 0; t < context; ++t) std::copy_n(&spread[(t * kv_heads + head) * stride], dim, &dense[t * dim]);
    return dense;
  }
  const float* Out(size_t token, size_t head) const { return &out[(token * heads + head) * value_stride()]; }
};

// What a query sees by the rule in strided.h, written out.
struct Seen {
  int64_t first, last;
};
Seen SeenBy(const StridedAttentionArgs& args, size_t token) {
  const int64_t context = static_cast<int64_t>(args.context), slot = args.first_slot + static_cast<int64_t>(token);
  if (args.first != nullptr) return {args.first[token], std::min(args.last[token], context)};
  Seen seen = {0, context};
  if (args.causal || args.window != 0) seen.last = std::min(context, slot + 1);
  if (args.window != 0 && args.window <= static_cast<size_t>(slot)) {
    seen.first = slot + 1 - static_cast<int64_t>(args.window);
  }
  return seen;
}

void Attend(const StridedAttentionArgs& args) {
  const char* fault = CheckStridedAttention(args);
  ASSERT_EQ(nullptr, fault) << fault;
  AlignedBytes scratch(StridedAttentionScratchBytes(args), 0xFF);
  StridedAttention(args, scratch.data());
}

// Every output against the paged kernel, one row a call.
void ExpectPagedBits(Arrays& arrays, const StridedAttentionArgs& args, const char* what) {
  Attend(args);
  const size_t group = arrays.heads / arrays.kv_heads;
  CacheShape shape;
  shape.key_type = args.key_type;
  shape.value_type = args.value_type;
  shape.key_dim = static_cast<uint32_t>(arrays.key_dim);
  shape.value_dim = static_cast<uint32_t>(arrays.value_dim);
  for (size_t head = 0; head < arrays.kv_heads; ++head) {
    const Cache cache(shape, args.variant, arrays.Dense(arrays.k, head, arrays.key_dim, arrays.key_stride()),
                      arrays.Dense(arrays.v, head, arrays.value_dim, arrays.value_stride()));
    for (size_t t = 0; t < arrays.tokens; ++t) {
      for (size_t h = head * group; h < (head + 1) * group; ++h) {
        Row row;
        row.q.assign(arrays.key_dim, 0);
        std::copy_n(&arrays.q[(t * arrays.heads + h) * arrays.key_stride()], arrays.key_dim, row.q.begin());
        const Seen seen = SeenBy(args, t);
        row.first = seen.first;
        row.last = seen.last;
        row.position = args.first_slot + static_cast<int64_t>(t);
        if (args.sinks != nullptr) row.sink = args.sinks[h];
        if (args.alibi_slopes != nullptr) row.slope = args.alibi_slopes[h];
        Options options;
        options.scale = args.scale;
        options.softcap = args.softcap;
        options.sink_slots = static_cast<int64_t>(args.sink_slots);
        options.sinks = args.sinks != nullptr;
        options.alibi = args.alibi_slopes != nullptr;
        const std::vector<float> expected = RunRows(args.variant, cache, {row}, options);
        ASSERT_TRUE(SameBits(expected.data(), arrays.Out(t, h), arrays.value_dim))
            << what << " " << Describe(args.variant, shape) << " heads " << arrays.heads << "/" << arrays.kv_heads
            << " token " << t << " head " << h;
      }
    }
  }
}

class StridedTypes : public testing::TestWithParam<CacheType> {};

TEST_P(StridedTypes, TheBitsOfThePagedPath) {
  for (Variant variant : RunnableVariants()) {
    Arrays causal(37, 613, 6, 2, 40, 24, 1);
    ExpectPagedBits(causal, causal.Args(variant, GetParam()), "causal");
    Arrays all(3, 130, 4, 4, 16, 16, 2);
    StridedAttentionArgs args = all.Args(variant, GetParam());
    args.causal = false;
    ExpectPagedBits(all, args, "all");
    Arrays window(30, 1100, 2, 1, 16, 16, 3);
    args = window.Args(variant, GetParam());
    for (size_t width : {size_t{1}, size_t{2}, size_t{64}, size_t{600}, size_t{1100}, SIZE_MAX}) {
      args.window = width;
      ExpectPagedBits(window, args, "window");
    }
  }
}

TEST_P(StridedTypes, SinksCapAndAlibi) {
  const std::vector<float> sinks = {0.5f, -1.0f, 3.0f, 0.0f}, slopes = {0.5f, 0.25f, 0.01f, 0.0f};
  for (Variant variant : RunnableVariants()) {
    Arrays arrays(20, 540, 4, 2, 32, 32, 4);
    StridedAttentionArgs args = arrays.Args(variant, GetParam());
    args.sinks = sinks.data();
    args.alibi_slopes = slopes.data();
    args.softcap = 5.0f;
    args.scale = 0.4f;
    ExpectPagedBits(arrays, args, "features");
  }
}

// Rows of more than one task, and tasks in any order.
TEST_P(StridedTypes, TasksInAnyOrder) {
  for (Variant variant : RunnableVariants()) {
    Arrays arrays(150, 150, 8, 2, 16, 16, 5);
    const StridedAttentionArgs args = arrays.Args(variant, GetParam());
    Attend(args);
    const std::vector<float> in_order = arrays.out;
    arrays.out.assign(arrays.out.size(), nanf(""));
    const size_t tasks = StridedAttentionTasks(args);
    ASSERT_EQ(2 * ((150 * 4 + kStridedRows - 1) / kStridedRows), tasks);
    for (size_t i = tasks; i-- > 0;) {
      AlignedBytes scratch(StridedAttentionScratchBytes(args), 0xFF);
      RunStridedAttentionTask(args, i, scratch.data());
    }
    for (size_t t = 0; t < 150; ++t) {
      for (size_t h = 0; h < 8; ++h) {
        ASSERT_TRUE(SameBits(&in_order[(t * 8 + h) * arrays.value_stride()], arrays.Out(t, h), 16)) << t << " " << h;
      }
    }
  }
}

// Intervals by query: chunks, a prefix that sees itself, two sequences, and queries that see nothing.
TEST_P(StridedTypes, IntervalsOfQueries) {
  const size_t n = 90;
  std::vector<int64_t> first(n), last(n);
  for (Variant variant : RunnableVariants()) {
    Arrays arrays(n, n, 2, 1, 16, 16, 6);
    StridedAttentionArgs args = arrays.Args(variant, GetParam());
    args.first = first.data();
    args.last = last.data();
    for (size_t t = 0; t < n; ++t) first[t] = static_cast<int64_t>(t / 17 * 17), last[t] = static_cast<int64_t>(t + 1);
    ExpectPagedBits(arrays, args, "chunks");
    for (size_t t = 0; t < n; ++t) first[t] = 0, last[t] = static_cast<int64_t>(std::max<size_t>(t + 1, 40));
    ExpectPagedBits(arrays, args, "prefix");
    for (size_t t = 0; t < n; ++t) first[t] = t < 33 ? 0 : 33, last[t] = static_cast<int64_t>(t + 1);
    ExpectPagedBits(arrays, args, "blocks");
    for (size_t t = 0; t < n; ++t) first[t] = -5, last[t] = t % 3 == 0 ? 0 : 1000;  // beyond both ends
    ExpectPagedBits(arrays, args, "ends");
    for (size_t d = 0; d < 16; ++d) EXPECT_EQ(0.0f, arrays.Out(0, 1)[d]);
  }
}

// The first slots are seen beside an interval that is empty, too: of a query whose window lies behind the keys, or whose interval says so.
TEST_P(StridedTypes, SinksBesideEmptyIntervals) {
  for (Variant variant : RunnableVariants()) {
    Arrays arrays(3, 100, 2, 1, 16, 16, 8);
    StridedAttentionArgs args = arrays.Args(variant, GetParam());
    args.sink_slots = 64;
    args.window = 4;
    args.first_slot = 200;
    ExpectPagedBits(arrays, args, "a window behind the keys");
    const std::vector<float> out = arrays.out;
    StridedAttentionArgs first_keys = args;
    first_keys.sink_slots = first_keys.window = 0;
    first_keys.context = 64;
    Attend(first_keys);
    for (size_t t = 0; t < 3; ++t) {
      const size_t at = t * 2 * arrays.value_stride();
      EXPECT_TRUE(SameBits(&out[at], &arrays.out[at], 16)) << "token " << t;
    }
    // Of three queries one sees nothing, one the sinks below its end alone, one its interval and the sinks.
    const int64_t first[] = {5, 80, 90}, last[] = {0, 30, 95};
    args.first = first;
    args.last = last;
    ExpectPagedBits(arrays, args, "empty intervals");
    for (size_t d = 0; d < 16; ++d) EXPECT_EQ(0.0f, arrays.Out(0, 1)[d]);
  }
}

// An interval may begin anywhere before the first slot, which is slot 0 then.
TEST_P(StridedTypes, IntervalsFromTheLeastNumberOn) {
  for (Variant variant : RunnableVariants()) {
    Arrays arrays(2, 600, 2, 1, 16, 16, 9);
    StridedAttentionArgs args = arrays.Args(variant, GetParam());
    std::vector<int64_t> first(2, 0);
    const int64_t last[] = {600, INT64_MAX};
    args.first = first.data();
    args.last = last;
    Attend(args);
    const std::vector<float> out = arrays.out;
    first.assign(2, INT64_MIN);
    Attend(args);
    for (size_t row = 0; row < 4; ++row) {
      const size_t at = row * arrays.value_stride();
      EXPECT_TRUE(SameBits(&out[at], &arrays.out[at], 16)) << VariantName(variant) << " row " << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, StridedTypes, testing::ValuesIn(kAllCacheTypes),
                         [](const auto& info) { return std::string(CacheTypeName(info.param)); });

// Each KV head's values are its number, so an output tells which one its head read. Square cases look right with h % kv_heads or
// h / kv_heads too; these do not.
TEST(Strided, HeadsReadTheirOwnKvHead) {
  constexpr size_t kShapes[][2] = {{32, 8}, {28, 4}, {14, 2}, {9, 3}, {8, 8}, {8, 1}, {48, 2}, {130, 1}, {1, 1}};
  for (Variant variant : RunnableVariants()) {
    for (const auto& [heads, kv_heads] : kShapes) {
      Arrays arrays(3, 20, heads, kv_heads, 8, 8, 7);
      for (size_t t = 0; t < 20; ++t) {
        for (size_t h = 0; h < kv_heads; ++h) {
          std::fill_n(&arrays.v[(t * kv_heads + h) * arrays.value_stride()], 8, static_cast<float>(h + 1));
        }
      }
      Attend(arrays.Args(variant, CacheType::kF32));
      for (size_t t = 0; t < 3; ++t) {
        for (size_t h = 0; h < heads; ++h) {
          const float expected = static_cast<float>(h / (heads / kv_heads) + 1);
          for (size_t d = 0; d < 8; ++d) {
            ASSERT_NEAR(expected, arrays.Out(t, h)[d], 1e-5f * expected)
                << VariantName(variant) << " " << heads << "/" << kv_heads << " head " << h;
          }
        }
      }
    }
  }
}

// 16-bit inputs are read as the numbers that they are.
TEST(Strided, ShortFloatsAreTheirValues) {
  for (Variant variant : RunnableVariants()) {
    for (ElementType type : {ElementType::kF16, ElementType::kBF16}) {
      Arrays arrays(5, 70, 4, 2, 24, 40, 8);
      const auto shorten = [&](std::vector<float>& floats) {
        std::vector<uint16_t> shorts(floats.size());
        for (size_t i = 0; i < floats.size(); ++i) {
          shorts[i] = type == ElementType::kF16 ? F16FromF32(floats[i]) : BF16FromF32(floats[i]);
          floats[i] = type == ElementType::kF16 ? F32FromF16(shorts[i]) : F32FromBF16(shorts[i]);
        }
        return shorts;
      };
      const std::vector<uint16_t> q = shorten(arrays.q), k = shorten(arrays.k), v = shorten(arrays.v);
      StridedAttentionArgs args = arrays.Args(variant, CacheType::kF32);
      Attend(args);
      const std::vector<float> from_floats = arrays.out;
      args.q.data = q.data(), args.k.data = k.data(), args.v.data = v.data();
      args.q.type = args.k.type = args.v.type = type;
      arrays.out.assign(arrays.out.size(), nanf(""));
      Attend(args);
      for (size_t t = 0; t < 5; ++t) {
        for (size_t h = 0; h < 4; ++h) {
          EXPECT_TRUE(SameBits(&from_floats[(t * 4 + h) * arrays.value_stride()], arrays.Out(t, h), 40));
        }
      }
    }
  }
}

TEST(Strided, ScratchDoesNotDependOnTheLengths) {
  for (Variant variant : RunnableVariants()) {
    Arrays arrays(1, 1, 8, 2, 64, 64, 9);
    StridedAttentionArgs args = arrays.Args(variant, CacheType::kF32);
    const size_t bytes = StridedAttentionScratchBytes(args);
    args.tokens = args.context = 1u << 20;
    args.heads = 64, args.kv_heads = 1;
    EXPECT_EQ(bytes, StridedAttentionScratchBytes(args));
  }
}

TEST(Strided, RefusesWhatItCannotCompute) {
  Arrays arrays(2, 4, 4, 2, 8, 8, 10);
  const auto refuses = [&](auto change) {
    StridedAttentionArgs args = arrays.Args(RunnableVariants().front(), CacheType::kF32);
    change(args);
    return CheckStridedAttention(args) != nullptr;
  };
  const int64_t interval[2] = {};
  EXPECT_FALSE(refuses([](StridedAttentionArgs&) {}));
  EXPECT_TRUE(refuses([](StridedAttentionArgs& a) { a.tokens = 0; }));
  EXPECT_TRUE(refuses([](StridedAttentionArgs& a) { a.context = 0; }));
  EXPECT_TRUE(refuses([](StridedAttentionArgs& a) { a.kv_heads = 0; }));
  EXPECT_TRUE(refuses([](StridedAttentionArgs& a) { a.heads = 33; }));
  EXPECT_TRUE(refuses([](StridedAttentionArgs& a) { a.heads = 0; }));
  EXPECT_TRUE(refuses([](StridedAttentionArgs& a) { a.key_dim = 0; }));
  EXPECT_TRUE(refuses([](StridedAttentionArgs& a) { a.value_dim = 1025; }));
  EXPECT_TRUE(refuses([](StridedAttentionArgs& a) { a.tokens = SIZE_MAX; }));
  EXPECT_TRUE(refuses([](StridedAttentionArgs& a) { a.sink_slots = 1; }));
  EXPECT_TRUE(refuses([](StridedAttentionArgs& a) { a.first_slot = INT64_MAX; }));
  EXPECT_TRUE(refuses([](StridedAttentionArgs& a) { a.first_slot = -1; }));
  EXPECT_TRUE(refuses([&](StridedAttentionArgs& a) { a.first = interval; }));
  EXPECT_TRUE(refuses([](StridedAttentionArgs& a) { a.key_type = static_cast<CacheType>(9); }));
}

}  // namespace
}  // namespace moonlit
