// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/round.h"
#include "runtime/cache/cache.h"

namespace moonlit {

Sequence::Sequence(PagePool* pool, std::string_view state)
    : pool_(pool), lost_(pool->groups()), table_(pool->groups()), pointers_(pool->groups()), views_(pool->groups()) {
  // A sequence can't be longer than the group that has most room, unless all have a lookback.
  size_t most = 0;
  for (size_t g = 0; g < pool->groups(); ++g) {
    most = std::max(most, pool->total_pages(g) * pool->layout(g).page_tokens);
  }
  for (size_t g = 0; g < pool->groups(); ++g) {
    table_[g].reserve(CeilDiv(most, pool->layout(g).page_tokens));
    pointers_[g].reserve(CeilDiv(most, pool->layout(g).page_tokens));
  }
  if (pool->prefixes() != nullptr) {
    block_ = pool->prefixes()->Root(state);
    pool->prefixes()->Pin(block_);
  }
  RefreshViews();
}

Sequence::Sequence(Sequence&& other) noexcept : pool_(nullptr), runs_() { *this = std::move(other); }

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(length_, other.length_);
  std::swap(tokens_, other.tokens_);
  std::swap(runs_, other.runs_);
  std::swap(pure_, other.pure_);
  std::swap(block_, other.block_);
  std::swap(blocks_, other.blocks_);
  std::swap(lost_, other.lost_);
  std::swap(table_, other.table_);
  std::swap(pointers_, other.pointers_);
  std::swap(views_, other.views_);
  std::swap(state_, other.state_);
  std::swap(next_state_, other.next_state_);
  return *this;
}

Sequence::~Sequence() {
  if (pool_ == nullptr) return;
  Truncate(0);
  if (pool_->prefixes() != nullptr) pool_->prefixes()->Unpin(block_);
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

// Free pages that it takes to write up to `length`. index_gives_way: the index lets go of a page that it shares with
// this sequence alone.
size_t Sequence::Wanted(size_t g, int64_t length, bool index_gives_way) const {
  const size_t pages = PagesFor(g, length);
  const size_t more = pages > table_[g].size() ? pages - table_[g].size() : 0;
  if (!MustCopyLast(g)) return more;
  const uint32_t last = table_[g][PagesFor(g, length_) - 1];
  const bool only_index = pool_->references(g, last) == 1 + pool_->index_references(g, last);
  return more + (index_gives_way && only_index ? 0 : 1);
}

Status Sequence::MakeRoomFor(int64_t length) {
  std::vector<size_t> wanted(table_.size()), least(table_.size());
  bool roomy = true;  // there is room for a copy of the last page too
  for (size_t g = 0; g < table_.size(); ++g) {
    wanted[g] = Wanted(g, length, false);
    least[g] = Wanted(g, length, true);
    roomy = roomy && wanted[g] <= pool_->free_pages(g) + pool_->cached_pages(g);
  }
  if (roomy) return pool_->MakeRoom(wanted);
  MOONLIT_RETURN_IF_ERROR(pool_->MakeRoom(least));
  // Every block goes but those that sequences stand on; the block of our last page is not among them.
  for (size_t g = 0; g < table_.size(); ++g) {
    const auto lacks = [&] { return Wanted(g, length, false) > pool_->free_pages(g); };
    if (lacks() && pool_->gives_back(g)) {  // sequences stand on blocks whose pages they have given back
      pool_->prefixes()->GiveUp(g, Wanted(g, length, false) - pool_->free_pages(g));
      if (lacks()) pool_->prefixes()->GiveUpPage(g, table_[g][PagesFor(g, length_) - 1]);
    }
    while (lacks()) MOONLIT_CHECK(pool_->prefixes()->EvictOne());
  }
  return Status();
}

void Sequence::CopyLast(size_t g) {
  const size_t index = PagesFor(g, length_) - 1;
  const uint32_t last = table_[g][index];
  const uint32_t copy = pool_->Allocate(g).value();  // there is room
  std::memcpy(pool_->data(g, copy), pool_->data(g, last), pool_->layout(g).page_bytes);
  pool_->Release(g, last);
  table_[g][index] = copy;
  pointers_[g][index] = pool_->data(g, copy);
}

Status Sequence::AddPage(size_t g) {
  MOONLIT_ASSIGN_OR_RETURN(const uint32_t page, pool_->Allocate(g));
  table_[g].push_back(page);
  pointers_[g].push_back(pool_->data(g, page));
  return Status();
}

void Sequence::ReserveTokens(size_t count) {
  if (tokens_.capacity() < count) tokens_.reserve(std::max(count, 2 * tokens_.capacity()));
}

Status Sequence::Reserve(int64_t length) {
  if (length <= length_) return Status();
  ReserveTokens(static_cast<size_t>(length));  // Commit takes no memory that it needs
  const bool wants_state = pool_->states() != nullptr && next_state_ == StatePool::kNone;
  if (wants_state) {
    MOONLIT_ASSIGN_OR_RETURN(next_state_, pool_->states()->Allocate());
  }
  if (const Status room = MakeRoomFor(length); !room.ok()) {
    if (wants_state) ReleaseState(next_state_);
    return room;
  }
  for (size_t g = 0; g < table_.size(); ++g) {
    if (MustCopyLast(g)) CopyLast(g);
    while (table_[g].size() < PagesFor(g, length)) MOONLIT_RETURN_IF_ERROR(AddPage(g));
  }
  RefreshViews();
  return Status();
}

void Sequence::ReleaseState(StatePool::Slot& slot) {
  if (slot != StatePool::kNone) pool_->states()->Release(slot);
  slot = StatePool::kNone;
}

// The state that the step wrote takes the place of the one that it read.
void Sequence::CommitState() {
  if (next_state_ == StatePool::kNone) return;
  ReleaseState(state_);
  std::swap(state_, next_state_);
}

void Sequence::Commit(std::span<const int32_t> tokens, bool as_read) {
  CommitState();
  if (!as_read) pure_ = std::min(pure_, length_);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  const auto unknown = std::find(tokens.begin(), tokens.end(), kNoToken);
  pure_ = std::min(pure_, unknown == tokens.end() ? INT64_MAX : length_ + (unknown - tokens.begin()));
  length_ += static_cast<int64_t>(tokens.size());
  try {
    ShareFullBlocks();
  } catch (const std::bad_alloc&) {  // the next time, then
  }
  GiveBackPassed(static_cast<int64_t>(pool_->block_tokens()));
}

void Sequence::Commit(int64_t slots) {
  CommitState();
  if (slots > 0) pure_ = std::min(pure_, length_);
  tokens_.insert(tokens_.end(), static_cast<size_t>(slots), kNoToken);
  length_ += slots;
  GiveBackPassed(static_cast<int64_t>(pool_->block_tokens()));
}

// The pages of a block that lies wholly below length(), in the index's order; a hole is no page there either.
std::vector<uint32_t> Sequence::BlockPages(size_t block) const {
  std::vector<uint32_t> pages;
  for (size_t g = 0; g < table_.size(); ++g) {
    const size_t count = pool_->block_tokens() / pool_->layout(g).page_tokens;
    pages.insert(pages.end(), table_[g].begin() + static_cast<std::ptrdiff_t>(block * count),
                 table_[g].begin() + static_cast<std::ptrdiff_t>((block + 1) * count));
  }
  return pages;
}

// Puts other pages of equal content in their place, where both have one.
void Sequence::ReplaceBlock(size_t block, std::span<const uint32_t> pages) {
  size_t next = 0;
  for (size_t g = 0; g < table_.size(); ++g) {
    const size_t count = pool_->block_tokens() / pool_->layout(g).page_tokens;
    for (size_t i = block * count; i < (block + 1) * count; ++i) {
      const uint32_t page = pages[next++];
      if (page == kHole || table_[g][i] == kHole) continue;
      pool_->Share(g, page);
      pool_->Release(g, table_[g][i]);
      table_[g][i] = page;
      pointers_[g][i] = pool_->data(g, page);
    }
  }
}

void Sequence::ShareFullBlocks() {
  PrefixIndex* prefixes = pool_->prefixes();
  if (prefixes == nullptr) return;
  const size_t size = pool_->block_tokens();
  const size_t full = static_cast<size_t>(std::min(length_, pure_)) / size;
  while (blocks_ < full) {
    const std::span<const int32_t> tokens = this->tokens().subspan(blocks_ * size, size);
    PrefixIndex::Block block = prefixes->Find(block_, tokens);
    if (block == PrefixIndex::kNone) {
      block = prefixes->Insert(block_, tokens, BlockPages(blocks_));
    } else {
      prefixes->Fill(block, BlockPages(blocks_));
      ReplaceBlock(blocks_, prefixes->pages(block));
    }
    StandOn(block, blocks_ + 1);
  }
}

size_t Sequence::TakePrefix(std::span<const int32_t> tokens) {
  PrefixIndex* prefixes = pool_->prefixes();
  const size_t size = pool_->block_tokens();
  if (prefixes == nullptr || length_ > pure_ || static_cast<size_t>(length_) != blocks_ * size) return 0;
  Truncate(length_);  // reserved pages would come between
  std::vector<PrefixIndex::Block> found;
  for (size_t at = 0; tokens.size() - at >= size; at += size) {
    const PrefixIndex::Block block = prefixes->Find(found.empty() ? block_ : found.back(), tokens.subspan(at, size));
    if (block == PrefixIndex::kNone) break;
    found.push_back(block);
  }
  while (!found.empty() && !HasWhatIsSeen(found)) found.pop_back();
  if (found.empty()) return 0;
  const size_t taken = found.size() * size;
  ReserveTokens(tokens_.size() + taken);  // before anything changes
  TakeBlocks(found);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(taken));
  length_ += static_cast<int64_t>(taken);
  StandOn(found.back(), blocks_ + found.size());
  RefreshViews();
  return taken;
}

void Sequence::StandOn(PrefixIndex::Block block, size_t blocks) {
  pool_->prefixes()->Pin(block);
  pool_->prefixes()->Unpin(block_);
  block_ = block;
  blocks_ = blocks;
}

// Stands on the first `blocks` blocks only. Those that are left have been of use until now.
void Sequence::CutChain(size_t blocks) {
  PrefixIndex* prefixes = pool_->prefixes();
  if (prefixes == nullptr || blocks >= blocks_) return;
  prefixes->Touch(block_);
  PrefixIndex::Block block = block_;
  for (size_t i = blocks_; i > blocks; --i) block = prefixes->parent(block);
  StandOn(block, blocks);
}

void Sequence::Truncate(int64_t length) {
  MOONLIT_CHECK(length >= 0 && length <= length_ && CanTruncate(length));
  TakeBack(length);
  ReleaseState(next_state_);
  if (length == 0) ReleaseState(state_);
  CutChain(static_cast<size_t>(length) / pool_->block_tokens());
  length_ = length;
  tokens_.resize(static_cast<size_t>(length));
  while (runs_.size() > 1 && runs_.back().begin >= length) runs_.pop_back();
  if (length == 0) runs_ = {{0, 0}};
  if (length <= pure_) pure_ = INT64_MAX;
  for (size_t g = 0; g < table_.size(); ++g) {
    while (table_[g].size() > PagesFor(g, length)) {
      if (table_[g].back() != kHole) pool_->Release(g, table_[g].back());
      table_[g].pop_back();
      pointers_[g].pop_back();
    }
  }
}

void Sequence::Drop(int64_t first, int64_t last) {
  const auto size = static_cast<int64_t>(pool_->block_tokens());
  MOONLIT_CHECK(0 <= first && first <= last && last <= length_ && first % size == 0 && last % size == 0);
  MOONLIT_CHECK(pool_->states() == nullptr);
  if (first == last) return;
  if (last == length_) return Truncate(first);
  GiveBackPassed(0);  // what is lost depends on where the text ends, not on how it was read
  CutChain(static_cast<size_t>(first / size));
  const int64_t dropped = last - first;
  std::vector<SlotRun> runs;
  for (size_t i = 0; i < runs_.size(); ++i) {
    const SlotRun run = runs_[i];
    const int64_t end = i + 1 < runs_.size() ? runs_[i + 1].begin : INT64_MAX;
    if (run.begin < first) runs.push_back(run);
    if (end > last) runs.push_back({std::max(run.begin, last) - dropped, run.shift + dropped});
  }
  runs_ = std::move(runs);
  pure_ = std::min(pure_, first);
  length_ -= dropped;
  tokens_.erase(tokens_.begin() + first, tokens_.begin() + last);
  for (size_t g = 0; g < table_.size(); ++g) {
    const auto tokens = static_cast<int64_t>(pool_->layout(g).page_tokens);
    for (int64_t i = first / tokens; i < last / tokens; ++i) {
      const uint32_t page = table_[g][static_cast<size_t>(i)];
      if (page != kHole) pool_->Release(g, page);
    }
    table_[g].erase(table_[g].begin() + first / tokens, table_[g].begin() + last / tokens);
    pointers_[g].erase(pointers_[g].begin() + first / tokens, pointers_[g].begin() + last / tokens);
  }
  NoteLost();
}

Sequence Sequence::Fork() const {
  Sequence copy(pool_);
  copy.length_ = length_;
  copy.tokens_ = tokens_;
  copy.runs_ = runs_;
  copy.pure_ = pure_;
  copy.lost_ = lost_;
  if (pool_->prefixes() != nullptr) copy.StandOn(block_, blocks_);
  if (state_ != StatePool::kNone) pool_->states()->Share(state_);
  copy.state_ = state_;  // nobody writes to it; what is only reserved stays here, like reserved pages
  for (size_t g = 0; g < table_.size(); ++g) {
    // Pages that are only reserved stay with this sequence, which is about to write them.
    for (size_t i = 0; i < PagesFor(g, length_); ++i) {
      if (table_[g][i] != kHole) pool_->Share(g, table_[g][i]);
      copy.table_[g].push_back(table_[g][i]);
      copy.pointers_[g].push_back(pointers_[g][i]);
    }
  }
  copy.RefreshViews();
  return copy;
}

namespace {

size_t PagesOf(const SequenceShape& shape, size_t g) {
  return static_cast<size_t>(std::count(shape.present[g].begin(), shape.present[g].end(), true));
}

}  // namespace

bool Sequence::MakesRoomFor(const SequenceShape& shape) const {
  if (pool_->states() != nullptr && !shape.tokens.empty() && pool_->states()->free() == 0) return false;
  for (size_t g = 0; g < table_.size(); ++g) {
    const auto is_own = [&](uint32_t page) {
      return page != kHole && pool_->references(g, page) == 1 + pool_->index_references(g, page);
    };
    const auto own = static_cast<size_t>(std::count_if(table_[g].begin(), table_[g].end(), is_own));
    if (PagesOf(shape, g) > pool_->free_pages(g) + pool_->cached_pages(g) + own) return false;
  }
  return true;
}

Result<Sequence> Sequence::Make(PagePool* pool, SequenceShape shape, std::string_view state) {
  Sequence sequence(pool, state);
  std::vector<size_t> wanted(pool->groups());
  for (size_t g = 0; g < pool->groups(); ++g) {
    wanted[g] = PagesOf(shape, g);
  }
  if (pool->states() != nullptr && !shape.tokens.empty()) {
    MOONLIT_ASSIGN_OR_RETURN(sequence.state_, pool->states()->Allocate());
  }
  MOONLIT_RETURN_IF_ERROR(pool->MakeRoom(wanted));
  for (size_t g = 0; g < pool->groups(); ++g) {
    for (bool present : shape.present[g]) {
      if (present) {
        MOONLIT_RETURN_IF_ERROR(sequence.AddPage(g));
      } else {
        sequence.table_[g].push_back(kHole);
        sequence.pointers_[g].push_back(nullptr);
      }
    }
  }
  sequence.length_ = static_cast<int64_t>(shape.tokens.size());
  sequence.tokens_ = std::move(shape.tokens);
  sequence.runs_ = std::move(shape.runs);
  if (sequence.length_ > 0) sequence.pure_ = 0;
  sequence.NoteLost();
  sequence.RefreshViews();
  return sequence;
}

void Sequence::RefreshViews() {
  for (size_t g = 0; g < pointers_.size(); ++g) views_[g] = pointers_[g].data();
}

}  // namespace moonlit
