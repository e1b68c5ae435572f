// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "kernels/base/check.h"
#include "runtime/cache/cache.h"

namespace moonlit {

PagePool::~PagePool() = default;

Result<std::unique_ptr<PagePool>> PagePool::Create(const std::vector<PageLayout>& groups, size_t pages_per_group) {
  if (pages_per_group == 0 || pages_per_group >= UINT32_MAX) {
    return Errorf(Code::kInvalidArgument, "cache: %zu pages per group; expected 1 to %u", pages_per_group,
                  UINT32_MAX - 1);
  }
  std::unique_ptr<PagePool> pool(new PagePool());
  for (const PageLayout& layout : groups) {
    MOONLIT_CHECK(layout.page_tokens > 0 && layout.page_bytes > 0);  // FinishPageLayout has been called
    if (layout.page_bytes > SIZE_MAX / pages_per_group) {
      return Errorf(Code::kOutOfMemory,
                    "cache: %zu pages of %zu bytes are more than this machine can address; ask for a smaller context",
                    pages_per_group, layout.page_bytes);
    }
    Group group{layout, {}, {}, {}, {}};
    MOONLIT_ASSIGN_OR_RETURN(group.memory, Buffer::Allocate(layout.page_bytes * pages_per_group, "the KV cache"));
    group.references.resize(pages_per_group);
    group.dirty.resize(pages_per_group);
    group.free.reserve(pages_per_group);
    for (size_t page = pages_per_group; page > 0; --page) group.free.push_back(static_cast<uint32_t>(page - 1));
    pool->groups_.push_back(std::move(group));
  }
  return pool;
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

void PagePool::Share(size_t group, uint32_t page) {
  MOONLIT_CHECK(groups_[group].references[page] > 0);
  ++groups_[group].references[page];
}

void PagePool::Release(size_t g, uint32_t page) {
  Group& group = groups_[g];
  MOONLIT_CHECK(group.references[page] > 0);
  if (--group.references[page] == 0) group.free.push_back(page);
}

}  // namespace moonlit
