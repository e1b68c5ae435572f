// SPDX-License-Identifier: Apache-2.0
// Which blocks of the cache hold which beginnings of texts: a tree of blocks below one root for each state of the model.
//
// A block is block_tokens() consecutive slots, in every cache group. Its content is decided by the model's state and by
// all tokens from the beginning to the block's end, so a block is found by its parent (the block before it, or the root)
// and its own tokens. The key in the table is a hash chain, hash(block) = XXH64(tokens, seed hash(parent)),
// hash(root) = XXH64(state); what a hash finds counts only if parent and tokens are equal.
//
// The index holds a reference to every page it names. A block that some sequence stands on is pinned, and so are the
// blocks before it; of the others the least recently used go first, children before their parents. Pages of groups with a lookback may
// go alone, of pinned blocks too (kNoPage stands for them): a text is taken up where the pages that its next token sees are left. A
// block without any page and without a child leads nowhere: it is forgotten as soon as no sequence stands on it.
// Not thread safe: it is part of its pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace moonlit {

class PagePool;

class PrefixIndex {
 public:
  using Block = uint32_t;
  static constexpr Block kNone = UINT32_MAX;
  static constexpr uint32_t kNoPage = UINT32_MAX;

  // hash_mask: tests make hashes collide.
  PrefixIndex(PagePool* pool, size_t block_tokens, uint64_t hash_mask)
      : pool_(pool), block_tokens_(block_tokens), hash_mask_(hash_mask) {}

  size_t block_tokens() const { return block_tokens_; }
  size_t size() const { return by_hash_.size(); }  // blocks, without roots
  size_t roots() const { return roots_.size(); }

  // The root of a state: bytes that differ whenever equal tokens would give other keys or values (adapter, rotation). It is
  // forgotten when it has neither blocks nor pins.
  Block Root(std::string_view state);
  // tokens: [block_tokens]. kNone when there is no such block.
  Block Find(Block parent, std::span<const int32_t> tokens) const;
  // REQUIRES: Find would say kNone; pages (those of group 0, then of group 1, ...) are in nobody's block yet.
  Block Insert(Block parent, std::span<const int32_t> tokens, std::span<const uint32_t> pages);
  std::span<const uint32_t> pages(Block block) const { return blocks_[block].pages; }
  Block parent(Block block) const { return blocks_[block].parent; }

  // Puts pages in the place of those that are gone. pages: as for Insert; kNoPage: none.
  void Fill(Block block, std::span<const uint32_t> pages);

  // A pinned block stays, with all before it. Pins are counted.
  void Pin(Block block);
  void Unpin(Block block);
  // The block and all before it were in use until now.
  void Touch(Block block);
  // Forgets one block; false when all that are left are pinned. Its pages are free unless somebody else holds them.
  bool EvictOne();
  // Lets go of up to `count` pages that nobody else holds, of a group with a lookback: those of the least recently used blocks.
  // Returns how many pages are free then.
  size_t GiveUp(size_t group, size_t count);
  // Lets go of this page, of such a group, in every block.
  void GiveUpPage(size_t group, uint32_t page);

 private:
  using Order = std::set<std::pair<uint64_t, Block>>;
  struct Entry {
    Block parent = kNone;  // of a root: kNone
    uint32_t children = 0;
    uint32_t pins = 0;
    uint64_t hash = 0;
    uint64_t used = 0;            // clock_ when last touched
    std::vector<int32_t> tokens;  // of a root: empty
    std::vector<uint32_t> pages;
    const std::string* state = nullptr;  // of a root: its key in roots_
    Order::node_type place;  // the block's own in evictable_, while it is not there: coming and going takes no memory
  };
  bool Evictable(Block block) const {
    const Entry& entry = blocks_[block];
    return entry.parent != kNone && entry.children == 0 && entry.pins == 0;
  }
  template <class Body>
  void ForPages(Block block, const Body& body);
  uint64_t HashOf(Block parent, std::span<const int32_t> tokens) const;
  Block NewEntry();
  template <class Body>
  Block NewEntryFor(const Body& name);
  void Leave(Block block);
  void EnterIfEvictable(Block block);
  void Remove(Block block);
  void ForgetUseless(Block block);

  PagePool* pool_;
  size_t block_tokens_;
  uint64_t hash_mask_;
  uint64_t clock_ = 0;
  std::vector<Entry> blocks_;
  std::vector<Block> unused_;  // entries to be taken again; has room for all
  std::unordered_multimap<uint64_t, Block> by_hash_;
  std::unordered_map<std::string, Block> roots_;
  Order evictable_;  // by time of use
};

}  // namespace moonlit
