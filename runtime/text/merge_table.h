// SPDX-License-Identifier: Apache-2.0
// The merges of a BPE vocabulary as numbers: every string that is a token or a side or result of a merge has an index,
// and a pair of indices leads to its rank and result in one probe. Immutable after Create, safe to share.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/vocabulary.h"

namespace moonlit {

class MergeTable {
 public:
  struct Merge {
    int32_t rank;
    int32_t result;  // index of left + right
  };

  // merges: "left right", split at the first space after the first character; best first. vocabulary must outlive the
  // table.
  static Result<MergeTable> Create(const Vocabulary& vocabulary, const std::vector<std::string>& merges);
  MergeTable(MergeTable&&) = default;
  MergeTable& operator=(MergeTable&&) = default;

  // The index of a string, -1 if no merge and no token has it.
  int32_t Find(std::string_view text) const;
  // The token that an index stands for in ordinary text, or kNoToken.
  int32_t Token(int32_t index) const { return tokens_[index]; }
  // nullptr if the two do not merge; -1 on either side never does.
  const Merge* FindMerge(int32_t left, int32_t right) const;

 private:
  struct Slot {
    int32_t left = -1;
    int32_t right = -1;
    Merge merge{-1, -1};
  };
  MergeTable() = default;
  int32_t Intern(std::string_view text, const Vocabulary& vocabulary);
  size_t SlotOf(int32_t left, int32_t right) const;

  std::deque<std::string> texts_;  // those that are no token; a deque never moves them
  std::unordered_map<std::string_view, int32_t> indices_;
  std::vector<int32_t> tokens_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
};

}  // namespace moonlit
