// SPDX-License-Identifier: Apache-2.0
// The paged KV cache: a pool of pages reserved when the engine is created, and sequences that hold tables of pages.
//
//   auto pool = PagePool::Create(plan->cache_groups(), pages);
//   Sequence sequence(pool.get());
//   MOONLIT_RETURN_IF_ERROR(sequence.Reserve(sequence.length() + n));  // pages for n more, or kExhausted
//   ... a step writes the slots ...
//   sequence.Commit(n);                                                  // or leave it: a failed step changes nothing
//
// Pages are reference counted; a full page is immutable and may be shared (fork), a partly filled one is copied before
// it is written. A page starts zeroed. Not thread safe: the engine serialises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/attention/page_layout.h"
#include "runtime/base/status.h"
#include "runtime/tensor/buffer.h"

namespace moonlit {

class PagePool {
 public:
  // A sequence may waste part of a page, so n sessions of n_ctx tokens need n * ceil(n_ctx / page_tokens) pages.
  // Errors: kInvalidArgument (no pages), kOutOfMemory.
  static Result<std::unique_ptr<PagePool>> Create(const std::vector<PageLayout>& groups, size_t pages_per_group);
  ~PagePool();

  size_t groups() const { return groups_.size(); }
  const PageLayout& layout(size_t group) const { return groups_[group].layout; }
  size_t free_pages(size_t group) const { return groups_[group].free.size(); }
  size_t total_pages(size_t group) const { return groups_[group].references.size(); }

  // A zeroed page with one reference; kExhausted names the group, its size and what to do.
  Result<uint32_t> Allocate(size_t group);
  void Share(size_t group, uint32_t page);    // one more reference
  void Release(size_t group, uint32_t page);  // one fewer; the last one frees it
  uint32_t references(size_t group, uint32_t page) const { return groups_[group].references[page]; }
  uint8_t* data(size_t group, uint32_t page) {
    return groups_[group].memory.data() + size_t{page} * groups_[group].layout.page_bytes;
  }

 private:
  struct Group {
    PageLayout layout;
    Buffer memory;
    std::vector<uint32_t> free;
    std::vector<uint32_t> references;
    std::vector<bool> dirty;  // must be zeroed before it is handed out
  };
  PagePool() = default;
  std::vector<Group> groups_;
};

// One sequence's tables: slot s of group g lies in page table[g][s / page_tokens].
class Sequence {
 public:
  explicit Sequence(PagePool* pool);  // pool outlives it
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;
  ~Sequence();

  int64_t length() const { return length_; }
  // Makes the slots from length() up to `length` writable: allocates pages, and copies a shared last page. All or
  // nothing: on kExhausted nothing has changed. What is reserved stays so until Truncate.
  Status Reserve(int64_t length);
  void Commit(int64_t tokens) { length_ += tokens; }  // REQUIRES: they are reserved
  // Drops tokens from the end; pages that are no longer needed, reserved ones too, are released. What lies in a kept
  // page behind `length` stays there unread. REQUIRES: 0 <= length <= length().
  void Truncate(int64_t length);
  // A copy that shares every page. Copies of the last, partly filled page happen when one of them writes.
  Sequence Fork() const;
  // For StepSpan::pages: [groups] -> page pointers. Valid until the next call that changes the sequence.
  std::span<uint8_t* const* const> pages() const { return views_; }

 private:
  size_t PagesFor(size_t group, int64_t length) const;
  bool MustCopyLast(size_t group) const;
  void RefreshViews();
  PagePool* pool_;
  int64_t length_ = 0;
  std::vector<std::vector<uint32_t>> table_;     // [groups][pages]
  std::vector<std::vector<uint8_t*>> pointers_;  // [groups][pages]
  std::vector<uint8_t* const*> views_;           // [groups]
};

}  // namespace moonlit
