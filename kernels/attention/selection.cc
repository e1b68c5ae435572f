// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/selection.h"

#include <string.h>

#include <algorithm>

#include "kernels/attention/page_offsets.h"

namespace moonlit {
namespace {

// Eight sums side by side, so that a compiler may use vectors without changing the order of additions.
constexpr size_t kSums = 8;

// An upper bound of q . k for keys between `lowest` and `highest`; +inf when a NaN takes part.
float BoundRow(const float* q, const float* lowest, const float* highest, size_t dims) {
  float sums[kSums] = {}, sizes[kSums] = {};
  for (size_t i = 0; i < dims; ++i) {
    const float low = q[i] * lowest[i], high = q[i] * highest[i];
    const float term =
        low > high || low != low ? low : high;  // a NaN stays, whichever it is: 0 times an infinite bound
    sums[i % kSums] += term;
    sizes[i % kSums] += term < 0.0f ? -term : term;
  }
  float sum = 0.0f, size = 0.0f;
  for (size_t i = 0; i < kSums; ++i) {
    sum += sums[i];
    size += sizes[i];
  }
  // Each term is rounded once, and passes at most dims / kSums + kSums additions, each rounded by 2^-24 of at most `size`;
  // the factor 2 covers the rounding of `size` itself.
  const float roundings = static_cast<float>(dims / kSums + kSums + 2);
  const float bound = sum + size * (roundings * 0x1p-23f) + 0x1p-126f * static_cast<float>(dims);
  return bound == bound ? bound : __builtin_inff();
}

}  // namespace

void BoundPages(const PageBoundArgs& args, float* bounds) {
  const size_t dims = args.layout->key_dim;
  for (size_t p = 0; p < args.page_count; ++p) {
    bounds[p] = -__builtin_inff();
    if (args.pages[p] == nullptr) continue;
    const uint8_t* stored = args.pages[p] + KeyBoundsOffset(*args.layout, args.part_offset);
    float keys[2 * kMaxHeadDim];
    memcpy(keys, stored, 2 * dims * sizeof(float));
    for (size_t r = 0; r < args.rows; ++r) {
      const float bound = BoundRow(args.q[r], keys, keys + dims, dims);
      bounds[p] = bound > bounds[p] ? bound : bounds[p];
    }
  }
}

size_t SelectPages(const PageBudget& budget, const float* bounds, const uint8_t* const* pages, size_t page_count,
                   uint32_t* order, const uint8_t** selected) {
  const size_t latest = std::min(std::max<size_t>(budget.latest, 1), page_count);
  const size_t end = page_count - latest;
  const size_t begin = std::min(budget.first, end);
  const size_t always = begin + latest;
  size_t candidates = 0;
  for (size_t p = begin; p < end; ++p) {
    if (pages[p] != nullptr) order[candidates++] = static_cast<uint32_t>(p);
  }
  const size_t most = std::min(candidates, budget.pages > always ? budget.pages - always : 0);
  if (most < candidates) {
    std::nth_element(order, order + most, order + candidates, [bounds](uint32_t a, uint32_t b) {
      return bounds[a] != bounds[b] ? bounds[a] > bounds[b] : a < b;
    });
  }
  for (size_t p = 0; p < page_count; ++p) selected[p] = p < begin || p >= end ? pages[p] : nullptr;
  for (size_t i = 0; i < most; ++i) selected[order[i]] = pages[order[i]];
  size_t kept = 0;
  for (size_t p = 0; p < page_count; ++p) kept += selected[p] != nullptr;
  return kept;
}

}  // namespace moonlit
