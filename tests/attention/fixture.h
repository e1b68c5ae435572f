// SPDX-License-Identifier: Apache-2.0
// A small paged cache with random contents, and ways to run the attention kernels on it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "tests/support/runnable_variants.h"

namespace moonlit {

// 64-byte aligned bytes.
class AlignedBytes {
 public:
  AlignedBytes(size_t bytes, uint8_t fill);
  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::unique_ptr<uint8_t[]> memory_;
  uint8_t* data_;
  size_t size_;
};

std::vector<float> NormalValues(size_t count, uint32_t seed, float deviation = 1.0f);

struct CacheShape {
  CacheType key_type = CacheType::kF32;
  CacheType value_type = CacheType::kF32;
  uint32_t key_dim = 64;
  uint32_t value_dim = 64;
  uint32_t page_tokens = 64;
  uint32_t kv_heads = 1;
};

PageLayout LayoutOf(const CacheShape& shape);

// The pages of one cache group of one layer; everything below concerns KV head 0.
class Cache {
 public:
  // keys: [tokens, key_dim], values: [tokens, value_dim]. `fill` is what slots hold before they are written.
  Cache(const CacheShape& shape, Variant variant, const std::vector<float>& keys, const std::vector<float>& values,
        uint8_t fill = 0, size_t chunk = 16);
  // Random contents.
  Cache(const CacheShape& shape, Variant variant, size_t tokens, uint32_t seed);

  const PageLayout& layout() const { return layout_; }
  size_t tokens() const { return tokens_; }
  const uint8_t* const* pages() const { return pointers_.data(); }
  size_t num_pages() const { return pages_.size(); }
  uint8_t* page(size_t i) { return pages_[i].data(); }
  void DropPage(size_t i) { pointers_[i] = nullptr; }
  // The same cache with another page table; valid as long as this one.
  Cache WithPages(const std::vector<const uint8_t*>& pages) const {
    Cache cache(layout_, tokens_);
    cache.pointers_ = pages;
    return cache;
  }
  // What the cache holds.
  const std::vector<float>& keys() const { return held_keys_; }
  const std::vector<float>& values() const { return held_values_; }

 private:
  Cache(const PageLayout& layout, size_t tokens) : layout_(layout), tokens_(tokens) {}

  PageLayout layout_;
  size_t tokens_;
  std::vector<AlignedBytes> pages_;
  std::vector<const uint8_t*> pointers_;
  std::vector<float> held_keys_;
  std::vector<float> held_values_;
};

struct Row {
  std::vector<float> q;
  int64_t first = 0;
  int64_t last = 0;
  int64_t position = 0;
  float sink = 0;
  float slope = 0;
};

struct Options {
  float scale = 1.0f;
  float softcap = 0.0f;
  bool sinks = false;
  bool alibi = false;
  int64_t sink_slots = 0;
};

enum class Path { kAttend, kSegments };

// [rows, value_dim]. All rows in one call.
std::vector<float> RunRows(Variant variant, const Cache& cache, const std::vector<Row>& rows, const Options& options,
                           Path path = Path::kAttend);

// [value_dim], float64, on the values that the cache holds.
std::vector<double> Expected(const Cache& cache, const Row& row, const Options& options);

// |o - ref|_2 / |ref|_2; infinity when an output is not finite.
double RelativeError(const float* out, const std::vector<double>& expected);

// Rows that see [0, last), with random queries of length sqrt(key_dim): q . k of a unit-normal k has deviation
// sqrt(key_dim).
std::vector<Row> CausalRows(size_t count, size_t key_dim, int64_t last, uint32_t seed);

// The design's bounds for unit-normal data and a score standard deviation of 1 or 3.
double Bound(CacheType type, Variant variant, int deviation);

std::string Describe(Variant variant, const CacheShape& shape);

bool SameBits(const float* a, const float* b, size_t count);

}  // namespace moonlit
