// SPDX-License-Identifier: Apache-2.0
// Sparse attention by pages: which pages of a long context are worth reading for a query (Tang et al. 2024, "Quest",
// arXiv:2406.10774). Nothing here is done unless a caller asks; whoever wants plain attention passes all pages.
//
//   1. When a page is full, its owner calls SummarizeKeys once (a full page never changes): the lowest and highest key of
//      every dimension go behind the page's parts.
//   2. For a query token: BoundPages gives, for every page, a number that no score of a key in it exceeds.
//   3. SelectPages keeps the pages with the highest bounds within a budget, always the first ones (attention sinks) and the
//      latest, and writes a page table with null for the rest.
//   4. attend (attention.h) over that table: a null page hides its slots.
//
// A budget that covers all pages gives the very table that went in, so the output has the bits of plain attention. StreamingLLM
// (Xiao et al. 2023, arXiv:2309.17453) needs no selection: it is AttentionArgs::sink_slots with a window as the interval.
//
// Plain C++ in a fixed order: the selection is the same on every variant and for every number of threads. Thread-safe.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/attention/page_layout.h"

namespace moonlit {

struct PageBoundArgs {
  const PageLayout* layout;
  const uint8_t* const* pages;  // [page_count], each summarized, or null
  size_t page_count;
  size_t part_offset;     // PagePartOffset(layout, layer, kv_head)
  size_t rows;            // the KV head's query heads, which share a selection
  const float* const* q;  // [rows] pointers to [key_dim] floats
};

// bounds[p] = max over rows and over any key between the page's bounds of q . k, without scale (REQUIRES a scale above 0) and
// without ALiBi. Null pages: -inf. A NaN anywhere: +inf, so that such a page is read and the NaN seen. Sums are in float,
// and rounded up by an allowance for their own rounding: no q . k of the page's keys, exactly computed, is larger.
void BoundPages(const PageBoundArgs& args, float* bounds);

struct PageBudget {
  size_t pages;   // to keep at most; but always first + latest
  size_t first;   // pages at the front that are always kept (attention sinks)
  size_t latest;  // pages at the end that are always kept; at least 1, for the page being filled has no bounds yet
};

// Writes selected[p] = pages[p] for the kept pages, null for the others; returns how many are kept (null pages don't count).
// Those in the middle by bound, highest first, equal bounds by lowest index. `order`: scratch, [page_count]. bounds: of the
// middle pages; others are not read.
size_t SelectPages(const PageBudget& budget, const float* bounds, const uint8_t* const* pages, size_t page_count,
                   uint32_t* order, const uint8_t** selected);

}  // namespace moonlit
