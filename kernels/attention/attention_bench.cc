// SPDX-License-Identifier: Apache-2.0
// Speed of the attention kernels on one core, for every variant that this CPU runs (cmake -DMOONLIT_BUILD_BENCH=ON):
//   decode   one token, 8 KV heads x group 4 x 64 dims, 8192 slots: GB/s of cache read
//   prefill  512 tokens against 8192 slots, the same heads: GFLOPS, counting 4 * key_dim per (row, visible slot)
// usage: attention_bench [part of a variant's name]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <memory>
#include <vector>

#include "kernels/attention/attention.h"

namespace moonlit {
namespace {

constexpr size_t kContext = 8192, kHeads = 8, kGroup = 4, kDim = 64, kPageTokens = 256;

// Processor time, so that a busy machine disturbs less.
double Seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Setup {
  explicit Setup(Variant v, CacheType type) : table(GetAttentionTable(v)) {
    layout = {kPageTokens, 1, kHeads, kDim, kDim, type, type, 0, 0, 0, 0, 0, 0};
    FinishPageLayout(&layout);
    constexpr size_t kHugePage = size_t{2} << 20;
    const size_t bytes = layout.page_bytes * (kContext / kPageTokens) + table.scratch_bytes(layout);
    uint8_t* at = static_cast<uint8_t*>(aligned_alloc(kHugePage, (bytes + kHugePage - 1) / kHugePage * kHugePage));
    madvise(at, bytes, MADV_HUGEPAGE);  // as the engine does for its cache
    memset(at, 0, bytes);
    memory.reset(at);
    std::vector<float> token(kDim);
    uint32_t state = 1;
    for (size_t p = 0; p < kContext / kPageTokens; ++p, at += layout.page_bytes) {
      pages.push_back(at);
      for (size_t h = 0; h < kHeads; ++h) {
        for (size_t t = 0; t < kPageTokens; ++t) {
          for (float& x : token)
            x = static_cast<float>(static_cast<int32_t>(state = state * 1664525u + 1013904223u)) * 0x1p-31f;
          table.pack_keys(layout, at + PagePartOffset(layout, 0, h), t, 1, token.data(), kDim);
          table.pack_values(layout, at + PagePartOffset(layout, 0, h), t, 1, token.data(), kDim);
        }
      }
    }
    scratch = at;
  }

  // Rows of `tokens` tokens whose last one is at slot last - 1, KV head `head`.
  void Attend(size_t head, size_t tokens, size_t last) {
    static float queries[kAttentionMaxRows * kDim], outputs[kAttentionMaxRows * kDim];
    const float* q[kAttentionMaxRows];
    float* out[kAttentionMaxRows];
    int64_t first[kAttentionMaxRows] = {}, end[kAttentionMaxRows];
    for (size_t r = 0; r < tokens * kGroup; ++r) {
      for (size_t i = 0; i < kDim; ++i)
        queries[r * kDim + i] = static_cast<float>((r * 31 + i * 17) % 64) / 32.0f - 1.0f;
      q[r] = queries + r * kDim;
      out[r] = outputs + r * kDim;
      end[r] = static_cast<int64_t>(last - tokens + 1 + r / kGroup);
    }
    AttentionArgs args = {};
    args.layout = &layout;
    args.pages = pages.data();
    args.part_offset = PagePartOffset(layout, 0, head);
    args.rows = tokens * kGroup;
    args.q = q;
    args.first = first;
    args.last = end;
    args.scale = 0.125f;
    args.out = out;
    args.scratch = scratch;
    table.attend(args);
  }

  const AttentionTable& table;
  PageLayout layout;
  std::unique_ptr<uint8_t, decltype(&free)> memory{nullptr, &free};
  std::vector<const uint8_t*> pages;
  void* scratch;
};

// The same pages read once by a plain loop: what this core can have of the memory at the moment.
double ReadSeconds(const Setup& setup) {
  const double start = Seconds();
  uint64_t sums[16] = {};
  for (const uint8_t* page : setup.pages) {
    const uint64_t* words = reinterpret_cast<const uint64_t*>(page);
    for (size_t i = 0; i + 16 <= setup.layout.page_bytes / 8; i += 16) {
      for (size_t j = 0; j < 16; ++j) sums[j] += words[i + j];
    }
  }
  uint64_t all = 0;
  for (uint64_t sum : sums) all += sum;
  asm volatile("" : : "r"(all));  // the sum counts as used
  return Seconds() - start;
}

void Measure(Variant variant, CacheType type) {
  Setup setup(variant, type);
  double best = 1e9, read = 1e9;
  for (int i = 0; i < 40; ++i) {
    const double plain = ReadSeconds(setup);
    read = plain < read ? plain : read;
    const double start = Seconds();
    for (size_t h = 0; h < kHeads; ++h) setup.Attend(h, 1, kContext);
    const double t = Seconds() - start;
    best = t < best ? t : best;
  }
  const double bytes = static_cast<double>(setup.layout.page_bytes) * (kContext / kPageTokens);
  printf("%-16s %-5s decode %7.3f ms %6.1f GB/s (plain read %5.1f)", VariantName(variant), CacheTypeName(type),
         best * 1e3, bytes / best * 1e-9, bytes / read * 1e-9);
  best = 1e9;
  const size_t tokens = kAttentionMaxRows / kGroup;
  for (int i = 0; i < 5; ++i) {
    const double start = Seconds();
    for (size_t t = 0; t < 512; t += tokens) setup.Attend(0, tokens, kContext - 512 + t + tokens);
    const double seconds = Seconds() - start;
    best = seconds < best ? seconds : best;
  }
  const double flops = 4.0 * kDim * kGroup * 512 * (kContext - 256);
  printf("   prefill (1 head) %7.2f ms %7.1f GFLOPS\n", best * 1e3, flops / best * 1e-9);
}

}  // namespace
}  // namespace moonlit

int main(int argc, char** argv) {
  size_t count = 0;
  const moonlit::Variant* variants = moonlit::BuiltVariants(&count);
  for (size_t i = 0; i < count; ++i) {
    if (!moonlit::CanRun(variants[i], moonlit::CpuFeatures()) || variants[i] == moonlit::Variant::scalar) continue;
    if (argc > 1 && strstr(moonlit::VariantName(variants[i]), argv[1]) == nullptr) continue;
    for (moonlit::CacheType type : moonlit::kAllCacheTypes) moonlit::Measure(variants[i], type);
  }
  return 0;
}
