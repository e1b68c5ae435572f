// SPDX-License-Identifier: Apache-2.0
// The merges of a BPE vocabulary as numbers: every string that is a token or a side or result of a merge has an index (a token's is
// its id), and a pair of indices leads to its rank and result in one probe. Immutable after Create, safe to share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/keyed_hash.h"
#include "runtime/text/text_table.h"
#include "runtime/text/vocabulary.h"

namespace moonlit {

class MergeTable {
 public:
  // merges: "left right", split at the first space after the first character; best first. vocabulary must outlive the
  // table.
  static Result<MergeTable> Create(const Vocabulary& vocabulary, const std::vector<std::string>& merges);
  MergeTable(MergeTable&&) = default;
  MergeTable& operator=(MergeTable&&) = default;

  // The index of a string, -1 if no merge and no token has it.
  int32_t Find(std::string_view text) const;
  // The token that an index stands for in ordinary text, or kNoToken.
  int32_t Token(int32_t index) const {
    return index < vocabulary_->size() && vocabulary_->IsPlain(index) ? index : kNoToken;
  }
  // The rank, -1 if the two do not merge; -1 on either side never does.
  int32_t FindMerge(int32_t left, int32_t right) const;
  int32_t ResultOf(int32_t rank) const { return merges_[static_cast<size_t>(rank)].result; }
  // Slots that the search for the worst of the merges goes through; goes through the table.
  size_t LongestProbe() const;

 private:
  struct Merge {
    int32_t left, right, result;  // indices; result is of left + right
  };
  explicit MergeTable(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {}
  int32_t Intern(std::string_view text);
  // Where a pair is, or the empty slot it would take.
  size_t SlotOf(int32_t left, int32_t right) const;
  size_t FirstSlotOf(int32_t left, int32_t right) const;

  const Vocabulary* vocabulary_;
  TextTable others_;           // those that are no token; their indices follow the ids
  std::vector<Merge> merges_;  // by rank
  HashKey key_ = ProcessHashKey();
  std::vector<int32_t> slots_;  // ranks, -1: empty; open addressing, a power of two, at most half full
};

}  // namespace moonlit
