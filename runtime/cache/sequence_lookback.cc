// SPDX-License-Identifier: Apache-2.0
// What a sequence does in groups whose layers look back a limited number of tokens: it gives back the pages that no coming token
// sees, and takes pages up again from the prefix index where it is cut, or begins, at a place that sees them. In such a group all
// pages below some slot are holes, and none above.
#include <algorithm>

#include "kernels/base/round.h"
#include "runtime/cache/cache.h"

namespace moonlit {

// Gives back pages that lie wholly below `slot`.
void Sequence::GiveBackBelow(size_t g, int64_t slot) {
  size_t i = static_cast<size_t>(std::max<int64_t>(0, slot)) / pool_->layout(g).page_tokens;
  for (; i > 0 && table_[g][i - 1] != kHole; --i) {
    pool_->Release(g, table_[g][i - 1]);
    table_[g][i - 1] = kHole;
    pointers_[g][i - 1] = nullptr;
  }
}

// spare: so many tokens may be cut from the end and still find what they see.
void Sequence::GiveBackPassed(int64_t spare) {
  for (size_t g = 0; g < table_.size(); ++g) {
    if (pool_->gives_back(g)) GiveBackBelow(g, pool_->FirstSeen(g, length_) - spare);
  }
}

void Sequence::NoteLost() {
  for (size_t g = 0; g < table_.size(); ++g) {
    const auto begin = table_[g].begin(), end = begin + static_cast<std::ptrdiff_t>(PagesFor(g, length_));
    const auto holes = std::find_if(begin, end, [](uint32_t page) { return page != kHole; }) - begin;
    const int64_t slots = holes * static_cast<int64_t>(pool_->layout(g).page_tokens);
    lost_[g] = slots > pool_->FirstSeen(g, length_) ? slots : 0;
  }
}

// Page `index` of the group, counted from the block's first.
uint32_t Sequence::PageOfBlock(PrefixIndex::Block block, size_t group, size_t index) const {
  size_t before = 0;
  for (size_t g = 0; g < group; ++g) before += pool_->block_tokens() / pool_->layout(g).page_tokens;
  return pool_->prefixes()->pages(block)[before + index];
}

// The sequence's blocks in the index. They are looked for when the first one is asked for: a cut that needs none takes no memory.
class Sequence::Chain {
 public:
  explicit Chain(const Sequence& sequence) : sequence_(sequence) {}
  size_t size() const { return sequence_.blocks_; }
  PrefixIndex::Block operator[](size_t i) {
    if (blocks_.empty()) {
      blocks_.resize(size());
      PrefixIndex::Block block = sequence_.block_;
      for (size_t left = size(); left > 0; --left) {
        blocks_[left - 1] = block;
        block = sequence_.pool_->prefixes()->parent(block);
      }
    }
    return blocks_[i];
  }

 private:
  const Sequence& sequence_;
  std::vector<PrefixIndex::Block> blocks_;
};

// Slots of the group below this one are seen by nobody once the sequence is cut to `length`. A cut into what is pure ends all of it:
// the text is one like others then, and its blocks are found by content.
int64_t Sequence::LostAfterCut(size_t g, int64_t length) const {
  return length <= pure_ || length <= lost_[g] ? 0 : lost_[g];
}

// Whether all is there that a token at slot `length` sees of the group.
bool Sequence::Reaches(size_t g, int64_t length, Chain& chain) const {
  if (length == 0 || pool_->lookback(g) == 0) return true;
  const size_t tokens = pool_->layout(g).page_tokens, per_block = pool_->block_tokens() / tokens;
  const int64_t first = std::max(pool_->FirstSeen(g, length), LostAfterCut(g, length));
  for (size_t i = static_cast<size_t>(first) / tokens; i < PagesFor(g, length); ++i) {
    if (table_[g][i] != kHole) continue;
    if (i / per_block >= chain.size() || PageOfBlock(chain[i / per_block], g, i % per_block) == kHole) return false;
  }
  return true;
}

int64_t Sequence::Reachable(int64_t length) const {
  if (length == 0 || length == length_) return length;
  if (pool_->states() != nullptr) return 0;
  Chain chain(*this);
  const auto size = static_cast<int64_t>(pool_->block_tokens());
  for (; length > 0; length = (length - 1) / size * size) {
    size_t g = 0;
    while (g < table_.size() && Reaches(g, length, chain)) ++g;
    if (g == table_.size()) break;
  }
  return length;
}

// Before the sequence is cut to `length`. REQUIRES: CanTruncate(length).
void Sequence::TakeBack(int64_t length) {
  if (length == length_) return;
  Chain chain(*this);
  for (size_t g = 0; g < table_.size(); ++g) {
    lost_[g] = LostAfterCut(g, length);
    const size_t tokens = pool_->layout(g).page_tokens, per_block = pool_->block_tokens() / tokens;
    const int64_t first = std::max(pool_->FirstSeen(g, length), lost_[g]);
    for (size_t i = static_cast<size_t>(first) / tokens; i < PagesFor(g, length); ++i) {
      if (table_[g][i] != kHole) continue;
      table_[g][i] = PageOfBlock(chain[i / per_block], g, i % per_block);
      pool_->Share(g, table_[g][i]);
      pointers_[g][i] = pool_->data(g, table_[g][i]);
    }
  }
}

// Whether the index still has what the token after these blocks, which go on where the sequence ends, sees of them.
bool Sequence::HasWhatIsSeen(std::span<const PrefixIndex::Block> more) const {
  const size_t size = pool_->block_tokens();
  const int64_t end = length_ + static_cast<int64_t>(more.size() * size);
  for (size_t g = 0; g < table_.size(); ++g) {
    const size_t tokens = pool_->layout(g).page_tokens, per_block = size / tokens;
    if (pool_->lookback(g) == 0) continue;
    const auto first = static_cast<size_t>(std::max<int64_t>(0, pool_->FirstSeen(g, end) - length_));
    for (size_t i = first / tokens; i < more.size() * per_block; ++i) {
      if (PageOfBlock(more[i / per_block], g, i % per_block) == kHole) return false;
    }
  }
  return true;
}

// Appends the blocks' pages, those that are seen. REQUIRES: HasWhatIsSeen, and nothing is reserved.
void Sequence::TakeBlocks(std::span<const PrefixIndex::Block> more) {
  const size_t size = pool_->block_tokens();
  const int64_t end = length_ + static_cast<int64_t>(more.size() * size);
  for (size_t g = 0; g < table_.size(); ++g) {
    const size_t tokens = pool_->layout(g).page_tokens, per_block = size / tokens;
    const int64_t seen = pool_->gives_back(g) ? pool_->FirstSeen(g, end) : 0;
    GiveBackBelow(g, std::min(seen, length_));
    for (size_t i = 0; i < more.size() * per_block; ++i) {
      const int64_t page_end = length_ + static_cast<int64_t>((i + 1) * tokens);
      const uint32_t page = page_end > seen ? PageOfBlock(more[i / per_block], g, i % per_block) : kHole;
      if (page != kHole) pool_->Share(g, page);
      table_[g].push_back(page);
      pointers_[g].push_back(page == kHole ? nullptr : pool_->data(g, page));
    }
  }
}

}  // namespace moonlit
