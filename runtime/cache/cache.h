// SPDX-License-Identifier: Apache-2.0
// The paged KV cache: a pool of pages reserved when the engine is created, and sequences that hold tables of pages.
//
//   auto pool = PagePool::Create(plan->cache_groups(), pages);
//   Sequence sequence(pool.get());
//   size_t known = sequence.TakePrefix(prompt.first(prompt.size() - 1));  // blocks that the pool still has
//   MOONLIT_RETURN_IF_ERROR(sequence.Reserve(sequence.length() + n));     // pages for n more, or kExhausted
//   ... a step writes the slots ...
//   sequence.Commit(tokens);                                              // or leave it: a failed step changes nothing
//
// Pages are reference counted; a full page is immutable and may be shared (fork, equal beginnings of texts), a partly
// filled one is copied before it is written. A page starts zeroed. Not thread safe: the engine serialises.
//
// In groups whose layers look back a limited number of tokens, a sequence gives back pages that no coming token sees and has holes
// there; the prefix index may still have them, until others need the room. See PagePoolOptions::lookback.
//
// Models with recurrent layers have, beside the pages, one state a sequence (state_pool.h): it can go on, be forked, saved and cleared,
// but not be taken back to fewer tokens, and blocks of such sequences are not shared by content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/attention/page_layout.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/cache/prefix_index.h"
#include "runtime/cache/state_pool.h"
#include "runtime/tensor/buffer.h"

namespace moonlit {

struct PagePoolOptions {
  bool share_prefixes = true;                // keep full blocks of ended sequences while nobody needs their pages
  uint64_t prefix_hash_mask = ~uint64_t{0};  // tests make hashes collide
  // Recurrent layers: bytes of a sequence's state (0: the model has none), and how many the pool holds. A sequence has one, and
  // while a step or a checkpoint is under way two.
  size_t state_bytes = 0;
  size_t states = 0;
  // [groups] how many tokens a token of the group's layers sees, itself among them; 0, or no entry: all before it.
  std::vector<size_t> lookback = {};
  // [groups] whether sequences give back what the lookback leaves behind; no entry: they do. Where they do not, holes come from
  // session files alone.
  std::vector<bool> gives_back = {};
  // [groups] pages of each group; no entry: what Create is told.
  std::vector<size_t> pages = {};
  Allocator allocator = {};  // of pages and states
};

class PagePool {
 public:
  // A sequence may waste part of a page, so n sessions of n_ctx tokens need n * ceil(n_ctx / page_tokens) pages.
  // Errors: kInvalidArgument (no pages), kOutOfMemory.
  static Result<std::unique_ptr<PagePool>> Create(const std::vector<PageLayout>& groups, size_t pages_per_group,
                                                  const PagePoolOptions& options = {});
  ~PagePool();

  size_t groups() const { return groups_.size(); }
  uint64_t memory_bytes() const;  // of all pages
  const PageLayout& layout(size_t group) const { return groups_[group].layout; }
  size_t total_pages(size_t group) const { return groups_[group].references.size(); }
  size_t free_pages(size_t group) const { return groups_[group].free.size(); }
  // Pages that only the prefix index holds: they become free when others run out.
  size_t cached_pages(size_t group) const { return groups_[group].cached; }
  // Tokens of a block: the least common multiple of the groups' pages.
  size_t block_tokens() const { return block_tokens_; }
  size_t lookback(size_t group) const { return groups_[group].lookback; }  // PagePoolOptions::lookback
  bool gives_back(size_t group) const { return groups_[group].gives_back; }
  // The first slot that a token at slot `length` sees of the group.
  int64_t FirstSeen(size_t group, int64_t length) const {
    const auto lookback = static_cast<int64_t>(groups_[group].lookback);
    return lookback == 0 || length + 1 < lookback ? 0 : length + 1 - lookback;
  }
  const Allocator& allocator() const { return allocator_; }  // PagePoolOptions::allocator
  PrefixIndex* prefixes() { return prefixes_.get(); }        // null without share_prefixes, and with states
  StatePool* states() const { return states_.get(); }        // null without state_bytes

  // A zeroed page with one reference; kExhausted names the group, its size and what to do. Takes free pages only.
  Result<uint32_t> Allocate(size_t group);
  // Evicts until every group g has wanted[g] free pages; kExhausted, and nothing is evicted, when that can't be.
  Status MakeRoom(std::span<const size_t> wanted);
  void Share(size_t group, uint32_t page);    // one more reference
  void Release(size_t group, uint32_t page);  // one fewer; the last one frees it
  uint32_t references(size_t group, uint32_t page) const { return groups_[group].references[page]; }
  uint8_t* data(size_t group, uint32_t page) {
    return groups_[group].memory.data() + size_t{page} * groups_[group].layout.page_bytes;
  }

  // References of the index's own, one for each block that the page is part of: two blocks that part in their second
  // page share the first.
  void ShareWithIndex(size_t group, uint32_t page);
  void ReleaseFromIndex(size_t group, uint32_t page);
  uint32_t index_references(size_t group, uint32_t page) const { return groups_[group].indexed[page]; }

 private:
  struct Group {
    PageLayout layout;
    size_t lookback;
    bool gives_back;
    Buffer memory;
    std::vector<uint32_t> free;
    std::vector<uint32_t> references;
    std::vector<uint32_t> indexed;  // how many of the references are the index's
    std::vector<bool> dirty;        // must be zeroed before it is handed out
    size_t cached = 0;
  };
  PagePool() = default;
  void Count(size_t group, uint32_t page, int references, int of_index);
  std::vector<Group> groups_;
  Allocator allocator_;
  size_t block_tokens_ = 1;
  std::unique_ptr<PrefixIndex> prefixes_;
  std::unique_ptr<StatePool> states_;
};

// What a sequence is beside the bytes of its pages.
struct SequenceShape {
  std::vector<int32_t> tokens;  // one a slot; kNoToken where the content is no token's
  std::vector<SlotRun> runs;    // at least one; the first begins at 0, begins ascend and lie below the length
  std::vector<std::vector<bool>>
      present;  // [groups][pages]; false: a hole, before pages that are there, in a group with a lookback
};

// One sequence's tables: slot s of group g lies in page table[g][s / page_tokens].
class Sequence {
 public:
  static constexpr int32_t kNoToken = -1;

  // `pool` outlives it. `state`: see PrefixIndex::Root; blocks are shared only between sequences of equal states.
  explicit Sequence(PagePool* pool, std::string_view state = {});
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;
  ~Sequence();

  int64_t length() const { return length_; }
  std::span<const int32_t> tokens() const { return tokens_; }  // [length]
  // Takes the longest run of blocks that hold the text so far and go on with `tokens`, and returns how many tokens they
  // are, a multiple of block_tokens(). Only at the end of a block; otherwise, or when a block was dropped, 0.
  size_t TakePrefix(std::span<const int32_t> tokens);
  // Makes the slots from length() up to `length` writable: allocates pages, evicting cached ones, and copies a shared
  // last page; and takes a slot for the recurrent state after them. All or nothing: on kExhausted nothing has changed.
  // What is reserved stays so until Truncate.
  Status Reserve(int64_t length);
  // The reserved slots after length() are written. Blocks that are now full become known to the prefix index; where it
  // has the same block already, the sequence takes that one's pages. The state in next_state() becomes the sequence's.
  // `as_read`: what lies in the pages is what any reading of these tokens gives; otherwise, and from there on, blocks are not
  // shared by content. REQUIRES: as many slots are reserved.
  void Commit(std::span<const int32_t> tokens, bool as_read = true);
  void Commit(int64_t slots);  // of something else than tokens: such blocks are never shared by content
  // Drops tokens from the end; pages that are no longer needed, reserved ones too, are released. What lies in a kept
  // page behind `length` stays there unread. REQUIRES: 0 <= length <= length(), CanTruncate(length).
  void Truncate(int64_t length);
  // A recurrent state knows no way back: all tokens may go, or none. Of pages that were given back, those that the next token sees
  // must still be in the prefix index.
  bool CanTruncate(int64_t length) const { return Reachable(length) == length; }
  // The greatest length up to `length` that the sequence can be truncated to; 0 always is one. From there, `length` is reached by
  // reading the tokens again. REQUIRES: 0 <= length <= length().
  int64_t Reachable(int64_t length) const;
  // Drops slots [first, last) and moves what follows down, without touching a key: see runs(). The rest of the text is
  // then no longer what a prefill of its tokens would give. What lay before `first` and was given back stays so, even where
  // less than a lookback follows: the group's layers do not see it, until the text is cut to `first` or less. REQUIRES: multiples of
  // block_tokens(), first <= last <= length(); no states.
  void Drop(int64_t first, int64_t last);
  // A copy that shares every page. Copies of the last, partly filled page happen when one of them writes.
  Sequence Fork() const;
  // For StepSpan::pages: [groups] -> page pointers, null for holes. Valid until the next call that changes the sequence.
  std::span<uint8_t* const* const> pages() const { return views_; }
  // For StepSpan::runs: at least one. New slots belong to the last.
  std::span<const SlotRun> runs() const { return runs_; }
  // For StepSpan::state and next_state: null at the beginning of a text, and where nothing is reserved.
  const float* state() const { return StateData(state_); }
  float* next_state() const { return StateData(next_state_); }
  // The state itself, for whoever has just made the sequence by Make.
  float* restored_state() const { return StateData(state_); }
  // Page number in the pool, kHole for a hole. REQUIRES: index < page_count(group).
  static constexpr uint32_t kHole = UINT32_MAX;
  uint32_t page(size_t group, size_t index) const { return table_[group][index]; }
  size_t page_count(size_t group) const { return PagesFor(group, length_); }
  PagePool* pool() const { return pool_; }

  // A sequence of this shape with zeroed pages, to be filled through pages(); unless it is empty it shares no block by content until it
  // is truncated to 0. Its state likewise, through restored_state(). kExhausted. REQUIRES: the shape is as SequenceShape says.
  static Result<Sequence> Make(PagePool* pool, SequenceShape shape, std::string_view state = {});
  // Whether Make would find room if this sequence were truncated to 0 before.
  bool MakesRoomFor(const SequenceShape& shape) const;

 private:
  class Chain;
  float* StateData(StatePool::Slot slot) const {
    return slot == StatePool::kNone ? nullptr : pool_->states()->data(slot);
  }
  void ReleaseState(StatePool::Slot& slot);
  void CommitState();
  size_t PagesFor(size_t group, int64_t length) const;
  bool MustCopyLast(size_t group) const;
  size_t Wanted(size_t group, int64_t length, bool index_gives_way) const;
  Status MakeRoomFor(int64_t length);
  void CopyLast(size_t group);
  Status AddPage(size_t group);
  void RefreshViews();
  void ReserveTokens(size_t count);
  std::vector<uint32_t> BlockPages(size_t block) const;
  void ReplaceBlock(size_t block, std::span<const uint32_t> pages);
  void ShareFullBlocks();
  void GiveBackBelow(size_t group, int64_t slot);
  void GiveBackPassed(int64_t spare);
  void NoteLost();
  int64_t LostAfterCut(size_t group, int64_t length) const;
  uint32_t PageOfBlock(PrefixIndex::Block block, size_t group, size_t index) const;
  bool Reaches(size_t group, int64_t length, Chain& chain) const;
  void TakeBack(int64_t length);
  bool HasWhatIsSeen(std::span<const PrefixIndex::Block> more) const;
  void TakeBlocks(std::span<const PrefixIndex::Block> more);
  void StandOn(PrefixIndex::Block block, size_t blocks);
  void CutChain(size_t blocks);

  PagePool* pool_;
  int64_t length_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<SlotRun> runs_{{0, 0}};
  int64_t pure_ = INT64_MAX;  // slots below it depend on the tokens up to them alone
  PrefixIndex::Block block_ =
      PrefixIndex::kNone;      // pinned: the last of the sequence's blocks in the index, or the root
  size_t blocks_ = 0;          // how many they are
  std::vector<int64_t> lost_;  // [groups] slots below it are seen by nobody though they are near enough (Drop)
  std::vector<std::vector<uint32_t>> table_;     // [groups][pages]
  std::vector<std::vector<uint8_t*>> pointers_;  // [groups][pages]
  std::vector<uint8_t* const*> views_;           // [groups]
  StatePool::Slot state_ = StatePool::kNone;     // after length() tokens; none at 0
  StatePool::Slot next_state_ = StatePool::kNone;
};

}  // namespace moonlit
