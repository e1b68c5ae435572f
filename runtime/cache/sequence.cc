// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "kernels/base/check.h"
#include "kernels/base/round.h"
#include "runtime/cache/cache.h"

namespace moonlit {

Sequence::Sequence(PagePool* pool)
    : pool_(pool), table_(pool->groups()), pointers_(pool->groups()), views_(pool->groups()) {
  // A sequence can't hold more pages than the pool has, so its tables never grow during a step.
  for (size_t g = 0; g < pool->groups(); ++g) {
    table_[g].reserve(pool->total_pages(g));
    pointers_[g].reserve(pool->total_pages(g));
  }
  RefreshViews();
}

Sequence::Sequence(Sequence&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      length_(std::exchange(other.length_, 0)),
      table_(std::move(other.table_)),
      pointers_(std::move(other.pointers_)),
      views_(std::move(other.views_)) {}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(length_, other.length_);
  std::swap(table_, other.table_);
  std::swap(pointers_, other.pointers_);
  std::swap(views_, other.views_);
  return *this;
}

Sequence::~Sequence() {
  if (pool_ != nullptr) Truncate(0);
}

size_t Sequence::PagesFor(size_t group, int64_t length) const {
  return CeilDiv(static_cast<size_t>(length), pool_->layout(group).page_tokens);
}

// The last page is partly filled and somebody else reads it too.
bool Sequence::MustCopyLast(size_t group) const {
  const size_t pages = PagesFor(group, length_);
  return static_cast<size_t>(length_) % pool_->layout(group).page_tokens != 0 &&
         pool_->references(group, table_[group][pages - 1]) > 1;
}

Status Sequence::Reserve(int64_t length) {
  if (length <= length_) return Status();
  // First the count, so that nothing has to be undone.
  for (size_t g = 0; g < table_.size(); ++g) {
    const size_t pages = PagesFor(g, length);
    const size_t wanted = (pages > table_[g].size() ? pages - table_[g].size() : 0) + (MustCopyLast(g) ? 1 : 0);
    if (wanted > pool_->free_pages(g)) {
      return Errorf(Code::kExhausted,
                    "cache: %zu more pages of group %zu are needed, %zu of %zu are free; end a session, shorten its "
                    "text or load with a larger "
                    "context",
                    wanted, g, pool_->free_pages(g), pool_->total_pages(g));
    }
  }
  for (size_t g = 0; g < table_.size(); ++g) {
    if (MustCopyLast(g)) {
      uint32_t& last = table_[g][PagesFor(g, length_) - 1];
      MOONLIT_ASSIGN_OR_RETURN(const uint32_t copy, pool_->Allocate(g));
      std::memcpy(pool_->data(g, copy), pool_->data(g, last), pool_->layout(g).page_bytes);
      pool_->Release(g, last);
      last = copy;
      pointers_[g][PagesFor(g, length_) - 1] = pool_->data(g, copy);
    }
    while (table_[g].size() < PagesFor(g, length)) {
      MOONLIT_ASSIGN_OR_RETURN(const uint32_t page, pool_->Allocate(g));
      table_[g].push_back(page);
      pointers_[g].push_back(pool_->data(g, page));
    }
  }
  RefreshViews();
  return Status();
}

void Sequence::Truncate(int64_t length) {
  MOONLIT_CHECK(length >= 0 && length <= length_);
  length_ = length;
  for (size_t g = 0; g < table_.size(); ++g) {
    while (table_[g].size() > PagesFor(g, length)) {
      pool_->Release(g, table_[g].back());
      table_[g].pop_back();
      pointers_[g].pop_back();
    }
  }
}

Sequence Sequence::Fork() const {
  Sequence copy(pool_);
  copy.length_ = length_;
  for (size_t g = 0; g < table_.size(); ++g) {
    // Pages that are only reserved stay with this sequence, which is about to write them.
    for (size_t i = 0; i < PagesFor(g, length_); ++i) {
      pool_->Share(g, table_[g][i]);
      copy.table_[g].push_back(table_[g][i]);
      copy.pointers_[g].push_back(pointers_[g][i]);
    }
  }
  return copy;
}

void Sequence::RefreshViews() {
  for (size_t g = 0; g < pointers_.size(); ++g) views_[g] = pointers_[g].data();
}

}  // namespace moonlit
