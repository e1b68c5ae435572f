// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/fixture.h"

#include <math.h>
#include <string.h>

#include <random>

#include "kernels/attention/reference.h"

namespace moonlit {

AlignedBytes::AlignedBytes(size_t bytes, uint8_t fill) : memory_(new uint8_t[bytes + 64]), size_(bytes) {
  data_ = memory_.get() + (64 - reinterpret_cast<uintptr_t>(memory_.get()) % 64) % 64;
  memset(data_, fill, bytes);
}

std::vector<float> NormalValues(size_t count, uint32_t seed, float deviation) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

PageLayout LayoutOf(const CacheShape& shape) {
  PageLayout layout = {};
  layout.page_tokens = shape.page_tokens;
  layout.layers = 1;
  layout.kv_heads = shape.kv_heads;
  layout.key_dim = shape.key_dim;
  layout.value_dim = shape.value_dim;
  layout.key_type = shape.key_type;
  layout.value_type = shape.value_type;
  if (!FinishPageLayout(&layout)) ADD_FAILURE() << "the test's own layout is refused";
  return layout;
}

Cache::Cache(const CacheShape& shape, Variant variant, const std::vector<float>& keys, const std::vector<float>& values,
             uint8_t fill, size_t chunk)
    : layout_(LayoutOf(shape)), tokens_(keys.size() / shape.key_dim) {
  const AttentionTable& table = GetAttentionTable(variant);
  const size_t page_tokens = shape.page_tokens;
  for (size_t p = 0; p * page_tokens < tokens_; ++p) {
    pages_.emplace_back(layout_.page_bytes, fill);
    pointers_.push_back(pages_.back().data());
  }
  size_t token = 0;
  while (token < tokens_) {
    const size_t room = 16 - token % 16;
    const size_t wanted = chunk < room ? chunk : room;
    const size_t count = wanted < tokens_ - token ? wanted : tokens_ - token;
    uint8_t* part = pages_[token / page_tokens].data() + PagePartOffset(layout_, 0, 0);
    table.pack_keys(layout_, part, token % page_tokens, count, keys.data() + token * shape.key_dim, shape.key_dim);
    table.pack_values(layout_, part, token % page_tokens, count, values.data() + token * shape.value_dim,
                      shape.value_dim);
    token += count;
  }
  held_keys_.resize(keys.size());
  held_values_.resize(values.size());
  for (size_t t = 0; t < tokens_; ++t) {
    const uint8_t* part = pointers_[t / page_tokens] + PagePartOffset(layout_, 0, 0);
    UnpackKey(layout_, part, t % page_tokens, &held_keys_[t * shape.key_dim]);
    UnpackValue(layout_, part, t % page_tokens, &held_values_[t * shape.value_dim]);
  }
}

Cache::Cache(const CacheShape& shape, Variant variant, size_t tokens, uint32_t seed)
    : Cache(shape, variant, NormalValues(tokens * shape.key_dim, seed),
            NormalValues(tokens * shape.value_dim, seed + 1)) {}

namespace {

// Arrays in the form that AttentionArgs wants.
struct Gathered {
  std::vector<const float*> q;
  std::vector<float*> out;
  std::vector<int64_t> first, last, position;
  std::vector<float> sinks, slopes;
};

}  // namespace

std::vector<float> RunRows(Variant variant, const Cache& cache, const std::vector<Row>& rows, const Options& options,
                           Path path) {
  const AttentionTable& table = GetAttentionTable(variant);
  const PageLayout& layout = cache.layout();
  std::vector<float> out(rows.size() * layout.value_dim, nanf(""));
  AlignedBytes scratch(table.scratch_bytes(layout), 0xFF);  // NaN: nothing may be read before it is written
  Gathered g;
  for (size_t r = 0; r < rows.size(); ++r) {
    g.q.push_back(rows[r].q.data());
    g.out.push_back(&out[r * layout.value_dim]);
    g.first.push_back(rows[r].first);
    g.last.push_back(rows[r].last);
    g.position.push_back(rows[r].position);
    g.sinks.push_back(rows[r].sink);
    g.slopes.push_back(rows[r].slope);
  }
  AttentionArgs args = {};
  args.layout = &layout;
  args.pages = cache.pages();
  args.part_offset = PagePartOffset(layout, 0, 0);
  args.rows = rows.size();
  args.q = g.q.data();
  args.first = g.first.data();
  args.last = g.last.data();
  args.sink_slots = options.sink_slots;
  args.scale = options.scale;
  args.softcap = options.softcap;
  args.sinks = options.sinks ? g.sinks.data() : nullptr;
  args.alibi_slopes = options.alibi ? g.slopes.data() : nullptr;
  args.position = options.alibi ? g.position.data() : nullptr;
  args.out = g.out.data();
  args.scratch = scratch.data();
  if (path == Path::kAttend) {
    table.attend(args);
    return out;
  }
  const size_t triple = AttentionTripleFloats(layout);
  const size_t segments = (cache.tokens() + kAttentionSegment - 1) / kAttentionSegment;
  const size_t stride = rows.size() * triple;
  AlignedBytes triples(segments * stride * sizeof(float), 0xFF);
  float* floats = reinterpret_cast<float*>(triples.data());
  for (size_t s = 0; s < segments; ++s) table.attend_segment(args, s, floats + s * stride);
  for (size_t r = 0; r < rows.size(); ++r) {
    table.merge(layout, floats + r * triple, stride, segments, options.sinks ? rows[r].sink : -INFINITY, g.out[r]);
  }
  return out;
}

std::vector<double> Expected(const Cache& cache, const Row& row, const Options& options) {
  const PageLayout& layout = cache.layout();
  std::vector<double> out(layout.value_dim);
  std::vector<double> scores(row.last > row.first ? static_cast<size_t>(row.last - row.first) : 0);
  ReferenceAttentionArgs args = {};
  args.q = row.q.data();
  args.keys = cache.keys().data();
  args.values = cache.values().data();
  args.key_dim = layout.key_dim;
  args.value_dim = layout.value_dim;
  args.first = row.first;
  args.last = row.last;
  args.scale = options.scale;
  args.softcap = options.softcap;
  args.has_sink = options.sinks;
  args.sink = row.sink;
  args.alibi_slope = options.alibi ? row.slope : 0.0f;
  args.position = row.position;
  args.scores = scores.data();
  args.out = out.data();
  ReferenceAttention(args);
  return out;
}

double RelativeError(const float* out, const std::vector<double>& expected) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!isfinite(out[i])) return INFINITY;
    error += (out[i] - expected[i]) * (out[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return norm == 0 ? (error == 0 ? 0 : INFINITY) : sqrt(error / norm);
}

std::vector<Row> CausalRows(size_t count, size_t key_dim, int64_t last, uint32_t seed) {
  std::vector<Row> rows(count);
  for (size_t r = 0; r < count; ++r) {
    rows[r].q = NormalValues(key_dim, seed + static_cast<uint32_t>(r) * 7919);
    double square = 0;
    for (float x : rows[r].q) square += static_cast<double>(x) * x;
    for (float& x : rows[r].q) x = static_cast<float>(x * sqrt(static_cast<double>(key_dim) / square));
    rows[r].last = last;
    rows[r].position = last - 1;
  }
  return rows;
}

double Bound(CacheType type, Variant variant, int deviation) {
  const bool bf16 = type == CacheType::kBF16 && DefaultCacheType(variant) == CacheType::kBF16;
  if (bf16) return deviation == 1 ? 4e-3 : 1e-2;
  if (type == CacheType::kQ8_0 || type == CacheType::kQ4_0) return deviation == 1 ? 1.5e-2 : 5e-2;
  return deviation == 1 ? 2e-6 : 4e-6;
}

std::string Describe(Variant variant, const CacheShape& shape) {
  return std::string(VariantName(variant)) + " k=" + CacheTypeName(shape.key_type) +
         " v=" + CacheTypeName(shape.value_type) + " dims " + std::to_string(shape.key_dim) + "/" +
         std::to_string(shape.value_dim) + " page " + std::to_string(shape.page_tokens);
}

bool SameBits(const float* a, const float* b, size_t count) { return memcmp(a, b, count * sizeof(float)) == 0; }

}  // namespace moonlit
