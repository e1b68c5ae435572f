// SPDX-License-Identifier: Apache-2.0
// Attention on one thread, for one KV head with four query heads of 64 or 128: the last token of a context (decode), sixteen
// tokens at its end (prefill), and writing a group of tokens into the cache.
#include <string>

#include "kernels/attention/attention.h"
#include "kernels/cpu/bench_main.h"

namespace moonlit {
namespace {

constexpr size_t kGroup = 4, kPageTokens = 256, kTokensPacked = 16;

// A cache of `context` tokens of one head.
struct Cache {
  Cache(Variant variant, CacheType type, size_t head_dim, size_t context) {
    layout.page_tokens = kPageTokens;
    layout.layers = layout.kv_heads = 1;
    layout.key_dim = layout.value_dim = static_cast<uint32_t>(head_dim);
    layout.key_type = layout.value_type = type;
    FinishPageLayout(&layout);
    const AttentionTable& table = GetAttentionTable(variant);
    const std::vector<float> values = BenchValues((context + kTokensPacked) * head_dim);
    for (size_t slot = 0; slot < context; slot += kTokensPacked) {
      if (slot % kPageTokens == 0) {
        memory.emplace_back(layout.page_bytes);
        pages.push_back(memory.back().data());
      }
      uint8_t* part = memory.back().data() + PagePartOffset(layout, 0, 0);
      const float* key = values.data() + slot * head_dim;
      table.pack_keys(layout, part, slot % kPageTokens, kTokensPacked, key, head_dim);
      table.pack_values(layout, part, slot % kPageTokens, kTokensPacked, key + head_dim, head_dim);
    }
  }

  PageLayout layout = {};
  std::vector<AlignedBytes> memory;
  std::vector<const uint8_t*> pages;
};

void Attend(benchmark::State& state, Variant variant, CacheType type, size_t head_dim, size_t context, size_t tokens) {
  const Cache cache(variant, type, head_dim, context);
  const size_t rows = tokens * kGroup;
  const std::vector<float> q = BenchValues(rows * head_dim);
  std::vector<float> out(rows * head_dim);
  std::vector<const float*> q_rows(rows);
  std::vector<float*> out_rows(rows);
  std::vector<int64_t> first(rows, 0), last(rows);
  double visible = 0;
  for (size_t r = 0; r < rows; ++r) {
    q_rows[r] = q.data() + r * head_dim;
    out_rows[r] = out.data() + r * head_dim;
    last[r] = static_cast<int64_t>(context - tokens + r / kGroup + 1);
    visible += static_cast<double>(last[r]);
  }
  const AttentionTable& table = GetAttentionTable(variant);
  const AlignedBytes scratch(table.scratch_bytes(cache.layout));
  AttentionArgs args = {};
  args.layout = &cache.layout;
  args.pages = cache.pages.data();
  args.part_offset = PagePartOffset(cache.layout, 0, 0);
  args.rows = rows;
  args.q = q_rows.data();
  args.first = first.data();
  args.last = last.data();
  args.scale = 0.125f;
  args.out = out_rows.data();
  args.scratch = scratch.data();
  for (auto _ : state) {
    table.attend(args);
    benchmark::ClobberMemory();
  }
  ReportRates(state, {.operations = 4.0 * static_cast<double>(head_dim) * visible,
                      .bytes = static_cast<double>(cache.layout.part_bytes / kPageTokens * context)});
}

void WriteCache(benchmark::State& state, Variant variant, CacheType type, size_t head_dim) {
  Cache cache(variant, type, head_dim, kPageTokens);
  const std::vector<float> values = BenchValues(kTokensPacked * head_dim);
  const AttentionTable& table = GetAttentionTable(variant);
  uint8_t* part = cache.memory.back().data() + PagePartOffset(cache.layout, 0, 0);
  for (auto _ : state) {
    table.pack_keys(cache.layout, part, 0, kTokensPacked, values.data(), head_dim);
    table.pack_values(cache.layout, part, 0, kTokensPacked, values.data(), head_dim);
    benchmark::ClobberMemory();
  }
  ReportRates(state, {.bytes = 2.0 * static_cast<double>(kTokensPacked * head_dim * sizeof(float))});
}

}  // namespace

void RegisterBenchmarks(Variant variant) {
  using benchmark::State;
  for (const CacheType type : kAllCacheTypes) {
    for (const size_t head_dim : {64, 128}) {
      const std::string name = std::string(CacheTypeName(type)) + "/head_dim:" + std::to_string(head_dim);
      for (const size_t context : {512, 4096}) {
        const std::string at = name + "/context:" + std::to_string(context);
        benchmark::RegisterBenchmark("decode/" + at,
                                     [=](State& state) { Attend(state, variant, type, head_dim, context, 1); });
        benchmark::RegisterBenchmark("prefill/" + at,
                                     [=](State& state) { Attend(state, variant, type, head_dim, context, 16); });
      }
      benchmark::RegisterBenchmark("write/" + name, [=](State& state) { WriteCache(state, variant, type, head_dim); });
    }
  }
}

}  // namespace moonlit
