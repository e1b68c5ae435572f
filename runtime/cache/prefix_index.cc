// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/prefix_index.h"

#include <algorithm>
#include <new>
#include <utility>

#include "kernels/base/check.h"
#include "runtime/base/checksum.h"
#include "runtime/cache/cache.h"

namespace moonlit {

PrefixIndex::Block PrefixIndex::NewEntry() {
  if (unused_.empty()) {
    if (unused_.capacity() <= blocks_.size()) unused_.reserve(2 * blocks_.size() + 1);
    blocks_.emplace_back();
    return static_cast<Block>(blocks_.size() - 1);
  }
  const Block block = unused_.back();
  unused_.pop_back();
  blocks_[block] = Entry();
  return block;
}

// An entry with a name; `name` puts it into a table. Without memory for either, std::bad_alloc, and nothing has changed.
template <class Body>
PrefixIndex::Block PrefixIndex::NewEntryFor(const Body& name) {
  const Block block = NewEntry();
  try {
    name(block);
  } catch (const std::bad_alloc&) {
    unused_.push_back(block);
    throw;
  }
  return block;
}

PrefixIndex::Block PrefixIndex::Root(std::string_view state) {
  std::string key(state);
  if (const auto found = roots_.find(key); found != roots_.end()) return found->second;
  const std::string* name = nullptr;
  const Block root = NewEntryFor([&](Block block) { name = &roots_.emplace(std::move(key), block).first->first; });
  blocks_[root].state = name;
  blocks_[root].hash = ChecksumOf(state.data(), state.size()) & hash_mask_;
  return root;
}

void PrefixIndex::Leave(Block block) {
  const auto at = evictable_.find({blocks_[block].used, block});
  if (at != evictable_.end()) blocks_[block].place = evictable_.extract(at);
}

void PrefixIndex::EnterIfEvictable(Block block) {
  Entry& entry = blocks_[block];
  if (!Evictable(block) || entry.place.empty()) return;
  entry.place.value() = {entry.used, block};
  evictable_.insert(std::move(entry.place));
}

uint64_t PrefixIndex::HashOf(Block parent, std::span<const int32_t> tokens) const {
  return ChecksumOf(tokens.data(), tokens.size_bytes(), blocks_[parent].hash) & hash_mask_;
}

PrefixIndex::Block PrefixIndex::Find(Block parent, std::span<const int32_t> tokens) const {
  MOONLIT_CHECK(tokens.size() == block_tokens_);
  const auto [begin, end] = by_hash_.equal_range(HashOf(parent, tokens));
  for (auto at = begin; at != end; ++at) {
    const Entry& entry = blocks_[at->second];
    if (entry.parent == parent && std::equal(tokens.begin(), tokens.end(), entry.tokens.begin())) return at->second;
  }
  return kNone;
}

// body(group, page): may change the page.
template <class Body>
void PrefixIndex::ForPages(Block block, const Body& body) {
  std::vector<uint32_t>& pages = blocks_[block].pages;
  size_t next = 0;
  for (size_t g = 0; g < pool_->groups() && !pages.empty(); ++g) {
    for (size_t i = 0; i < block_tokens_ / pool_->layout(g).page_tokens; ++i) body(g, pages[next++]);
  }
  MOONLIT_CHECK(next == pages.size());
}

PrefixIndex::Block PrefixIndex::Insert(Block parent, std::span<const int32_t> tokens, std::span<const uint32_t> pages) {
  MOONLIT_CHECK(tokens.size() == block_tokens_);
  Entry entry;
  entry.parent = parent;
  entry.hash = HashOf(parent, tokens);
  entry.used = ++clock_;
  entry.tokens.assign(tokens.begin(), tokens.end());
  entry.pages.assign(pages.begin(), pages.end());
  Order order;
  order.emplace(0, 0);
  entry.place = order.extract(order.begin());
  const Block block = NewEntryFor([&](Block made) { by_hash_.emplace(entry.hash, made); });
  blocks_[block] = std::move(entry);
  Leave(parent);
  ++blocks_[parent].children;
  EnterIfEvictable(block);
  ForPages(block, [&](size_t g, uint32_t& page) {
    if (page != kNoPage) pool_->ShareWithIndex(g, page);
  });
  return block;
}

void PrefixIndex::Fill(Block block, std::span<const uint32_t> pages) {
  size_t next = 0;
  ForPages(block, [&](size_t g, uint32_t& page) {
    const uint32_t other = pages[next++];
    if (page != kNoPage || other == kNoPage) return;
    page = other;
    pool_->ShareWithIndex(g, page);
  });
}

size_t PrefixIndex::GiveUp(size_t group, size_t count) {
  std::vector<std::pair<uint64_t, Block>> order;
  for (Block block = 0; block < blocks_.size(); ++block) {
    if (!blocks_[block].pages.empty()) order.emplace_back(blocks_[block].used, block);
  }
  std::sort(order.begin(), order.end());
  size_t freed = 0;
  for (size_t i = 0; i < order.size() && freed < count; ++i) {
    ForPages(order[i].second, [&](size_t g, uint32_t& page) {
      if (g != group || page == kNoPage || freed == count) return;
      if (pool_->references(g, page) != pool_->index_references(g, page)) return;  // some sequence's
      freed += pool_->references(g, page) == 1 ? 1 : 0;
      pool_->ReleaseFromIndex(g, page);
      page = kNoPage;
    });
    ForgetUseless(order[i].second);
  }
  return freed;
}

void PrefixIndex::GiveUpPage(size_t group, uint32_t given) {
  for (Block block = 0; block < blocks_.size(); ++block) {
    ForPages(block, [&](size_t g, uint32_t& page) {
      if (g != group || page != given) return;
      pool_->ReleaseFromIndex(g, page);
      page = kNoPage;
    });
    ForgetUseless(block);
  }
}

void PrefixIndex::Pin(Block block) {
  Leave(block);
  ++blocks_[block].pins;
}

void PrefixIndex::Unpin(Block block) {
  MOONLIT_CHECK(blocks_[block].pins > 0);
  --blocks_[block].pins;
  EnterIfEvictable(block);
  ForgetUseless(block);
}

void PrefixIndex::Touch(Block block) {
  ++clock_;
  for (; block != kNone; block = blocks_[block].parent) {
    Leave(block);
    blocks_[block].used = clock_;
    EnterIfEvictable(block);
  }
}

// REQUIRES: Evictable(block).
void PrefixIndex::Remove(Block block) {
  Leave(block);
  Entry& entry = blocks_[block];
  ForPages(block, [&](size_t g, uint32_t& page) {
    if (page != kNoPage) pool_->ReleaseFromIndex(g, page);
  });
  const auto [begin, end] = by_hash_.equal_range(entry.hash);
  by_hash_.erase(std::find_if(begin, end, [&](const auto& at) { return at.second == block; }));
  const Block parent = entry.parent;
  --blocks_[parent].children;
  EnterIfEvictable(parent);
  entry = Entry();
  unused_.push_back(block);
}

// Removes the block, and then those before it, as far as nothing is to be had by them: no page, no child, no sequence.
void PrefixIndex::ForgetUseless(Block block) {
  const auto is_gone = [](uint32_t page) { return page == kNoPage; };
  while (Evictable(block) && std::all_of(blocks_[block].pages.begin(), blocks_[block].pages.end(), is_gone)) {
    const Block parent = blocks_[block].parent;
    Remove(block);
    block = parent;
  }
  Entry& entry = blocks_[block];
  if (entry.state == nullptr || entry.children > 0 || entry.pins > 0) return;
  roots_.erase(roots_.find(*entry.state));
  entry = Entry();
  unused_.push_back(block);
}

bool PrefixIndex::EvictOne() {
  if (evictable_.empty()) return false;
  const Block block = evictable_.begin()->second, parent = blocks_[block].parent;
  Remove(block);
  ForgetUseless(parent);
  return true;
}

}  // namespace moonlit
