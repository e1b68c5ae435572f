// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/merge_table.h"

#include <algorithm>

namespace moonlit {

int32_t MergeTable::Intern(std::string_view text) {
  const int32_t index = Find(text);
  return index >= 0 ? index : vocabulary_->size() + others_.Add(text);
}

size_t MergeTable::FirstSlotOf(int32_t left, int32_t right) const {
  const uint64_t hash = KeyedHash(static_cast<uint32_t>(left), static_cast<uint32_t>(right), key_);
  return static_cast<size_t>(hash & (slots_.size() - 1));
}

size_t MergeTable::LongestProbe() const {
  size_t longest = 0;
  for (const Merge& merge : merges_) {
    const size_t probe = SlotOf(merge.left, merge.right) - FirstSlotOf(merge.left, merge.right);
    longest = std::max(longest, probe & (slots_.size() - 1));
  }
  return longest;
}

size_t MergeTable::SlotOf(int32_t left, int32_t right) const {
  size_t slot = FirstSlotOf(left, right);
  for (; slots_[slot] >= 0; slot = (slot + 1) & (slots_.size() - 1)) {
    const Merge& merge = merges_[static_cast<size_t>(slots_[slot])];
    if (merge.left == left && merge.right == right) break;
  }
  return slot;
}

Result<MergeTable> MergeTable::Create(const Vocabulary& vocabulary, const std::vector<std::string>& merges) {
  constexpr size_t kMaxMerges = size_t{1} << 28;
  if (merges.size() > kMaxMerges) return Errorf(Code::kCorrupt, "tokenizer.ggml.merges has %zu entries", merges.size());
  MergeTable table(vocabulary);
  size_t capacity = 16;
  while (capacity < merges.size() * 2) capacity *= 2;
  table.slots_.assign(capacity, -1);
  table.merges_.reserve(merges.size());
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.empty() ? std::string_view::npos : merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return Errorf(Code::kCorrupt, "tokenizer.ggml.merges: entry %zu is not two strings with a space between them",
                    rank);
    }
    const int32_t left = table.Intern(merge.substr(0, space));
    const int32_t right = table.Intern(merge.substr(space + 1));
    joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
    const int32_t result = table.Intern(joined);
    int32_t& slot = table.slots_[table.SlotOf(left, right)];
    table.merges_.push_back({left, right, result});
    if (slot < 0) slot = static_cast<int32_t>(rank);  // of equal merges the first counts
  }
  return table;
}

int32_t MergeTable::Find(std::string_view text) const {
  const int32_t id = vocabulary_->Find(text);
  if (id >= 0) return id;
  const int32_t other = others_.Find(text);
  return other < 0 ? -1 : vocabulary_->size() + other;
}

int32_t MergeTable::FindMerge(int32_t left, int32_t right) const {
  return left < 0 || right < 0 ? -1 : slots_[SlotOf(left, right)];
}

}  // namespace moonlit
