// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <numeric>

#include "kernels/base/check.h"
#include "runtime/cache/cache.h"

namespace moonlit {
namespace {

constexpr size_t kMostBlockTokens = size_t{1} << 24;

}  // namespace

PagePool::~PagePool() = default;

Result<std::unique_ptr<PagePool>> PagePool::Create(const std::vector<PageLayout>& groups, size_t pages_per_group,
                                                   const PagePoolOptions& options) {
  if (pages_per_group == 0 || pages_per_group >= UINT32_MAX) {
    return Errorf(Code::kInvalidArgument, "cache: %zu pages per group; expected 1 to %u", pages_per_group,
                  UINT32_MAX - 1);
  }
  std::unique_ptr<PagePool> pool(new PagePool());
  pool->allocator_ = options.allocator;
  for (size_t g = 0; g < groups.size(); ++g) {
    const PageLayout& layout = groups[g];
    const size_t pages = g < options.pages.size() ? options.pages[g] : pages_per_group;
    MOONLIT_CHECK(pages > 0 && pages <= pages_per_group);
    MOONLIT_CHECK(layout.page_tokens > 0 && layout.page_bytes > 0);  // FinishPageLayout has been called
    if (layout.page_bytes > SIZE_MAX / pages) {
      return Errorf(Code::kOutOfMemory,
                    "cache: %zu pages of %zu bytes are more than this machine can address; ask for a smaller context",
                    pages, layout.page_bytes);
    }
    const size_t lookback = g < options.lookback.size() ? options.lookback[g] : 0;
    const bool gives_back = lookback != 0 && (g >= options.gives_back.size() || options.gives_back[g]);
    Group group{layout, lookback, gives_back, {}, {}, {}, {}, {}};
    MOONLIT_ASSIGN_OR_RETURN(group.memory,
                             Buffer::Allocate(layout.page_bytes * pages, "the KV cache", options.allocator));
    group.references.resize(pages);
    group.dirty.resize(pages);
    group.indexed.resize(pages);
    group.free.reserve(pages);
    for (size_t page = pages; page > 0; --page) group.free.push_back(static_cast<uint32_t>(page - 1));
    pool->groups_.push_back(std::move(group));
    pool->block_tokens_ = std::lcm(pool->block_tokens_, size_t{layout.page_tokens});
    MOONLIT_CHECK(pool->block_tokens_ <= kMostBlockTokens);
  }
  if (options.state_bytes > 0) {
    MOONLIT_ASSIGN_OR_RETURN(pool->states_, StatePool::Create(options.state_bytes, options.states, options.allocator));
  } else if (options.share_prefixes) {
    pool->prefixes_ = std::make_unique<PrefixIndex>(pool.get(), pool->block_tokens_, options.prefix_hash_mask);
  }
  return pool;
}

uint64_t PagePool::memory_bytes() const {
  uint64_t bytes = 0;
  for (const Group& group : groups_) bytes += group.memory.size();
  return bytes;
}

Result<uint32_t> PagePool::Allocate(size_t g) {
  Group& group = groups_[g];
  if (group.free.empty()) {
    return Errorf(Code::kExhausted,
                  "cache: all %zu pages of group %zu (%u tokens each) are in use; end a session, shorten its text or "
                  "load with a larger context",
                  group.references.size(), g, group.layout.page_tokens);
  }
  // Last freed, first used: a pool that is never full keeps touching the same memory.
  const uint32_t page = group.free.back();
  group.free.pop_back();
  group.references[page] = 1;
  if (group.dirty[page]) std::memset(data(g, page), 0, group.layout.page_bytes);
  group.dirty[page] = true;
  return page;
}

Status PagePool::MakeRoom(std::span<const size_t> wanted) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (wanted[g] <= free_pages(g) + cached_pages(g)) continue;
    return Errorf(Code::kExhausted,
                  "cache: %zu more pages of group %zu are needed, %zu of %zu are free; end a session, shorten its text "
                  "or load with a larger context",
                  wanted[g], g, free_pages(g) + cached_pages(g), total_pages(g));
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (wanted[g] > free_pages(g) && gives_back(g)) prefixes_->GiveUp(g, wanted[g] - free_pages(g));
    while (wanted[g] > free_pages(g)) MOONLIT_CHECK(prefixes_->EvictOne());
  }
  return Status();
}

void PagePool::Count(size_t g, uint32_t page, int references, int of_index) {
  Group& group = groups_[g];
  const auto cached = [&] { return group.references[page] > 0 && group.references[page] == group.indexed[page]; };
  MOONLIT_CHECK(group.references[page] > 0);
  if (cached()) --group.cached;
  group.references[page] += static_cast<uint32_t>(references);
  group.indexed[page] += static_cast<uint32_t>(of_index);
  MOONLIT_CHECK(group.indexed[page] <= group.references[page]);
  if (cached()) ++group.cached;
  if (group.references[page] == 0) group.free.push_back(page);
}

void PagePool::Share(size_t group, uint32_t page) { Count(group, page, 1, 0); }
void PagePool::Release(size_t group, uint32_t page) { Count(group, page, -1, 0); }
void PagePool::ShareWithIndex(size_t group, uint32_t page) { Count(group, page, 1, 1); }
void PagePool::ReleaseFromIndex(size_t group, uint32_t page) { Count(group, page, -1, -1); }

}  // namespace moonlit
