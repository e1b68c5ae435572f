// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/merge_table.h"

namespace moonlit {

int32_t MergeTable::Intern(std::string_view text, const Vocabulary& vocabulary) {
  const auto found = indices_.find(text);
  if (found != indices_.end()) return found->second;
  const auto index = static_cast<int32_t>(tokens_.size());
  const int32_t id = vocabulary.Find(text);
  const std::string_view kept = id != kNoToken ? std::string_view(vocabulary.Text(id)) : texts_.emplace_back(text);
  indices_.emplace(kept, index);
  tokens_.push_back(vocabulary.FindPlain(text));
  return index;
}

size_t MergeTable::SlotOf(int32_t left, int32_t right) const {
  uint64_t hash = (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  hash = (hash ^ (hash >> 32)) * 0x9E3779B97F4A7C15ull;  // Fibonacci hashing: the high bits are well mixed
  size_t slot = static_cast<size_t>(hash >> 32) & (slots_.size() - 1);
  while (slots_[slot].left >= 0 && (slots_[slot].left != left || slots_[slot].right != right))
    slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

Result<MergeTable> MergeTable::Create(const Vocabulary& vocabulary, const std::vector<std::string>& merges) {
  constexpr size_t kMaxMerges = size_t{1} << 28;
  if (merges.size() > kMaxMerges) return Errorf(Code::kCorrupt, "tokenizer.ggml.merges has %zu entries", merges.size());
  MergeTable table;
  table.indices_.reserve(static_cast<size_t>(vocabulary.size()) + merges.size() / 8);
  for (int32_t id = 0; id < vocabulary.size(); ++id) table.Intern(vocabulary.Text(id), vocabulary);
  size_t capacity = 16;
  while (capacity < merges.size() * 2) capacity *= 2;
  table.slots_.resize(capacity);
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.empty() ? std::string_view::npos : merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return Errorf(Code::kCorrupt, "tokenizer.ggml.merges: entry %zu is not two strings with a space between them",
                    rank);
    }
    const int32_t left = table.Intern(merge.substr(0, space), vocabulary);
    const int32_t right = table.Intern(merge.substr(space + 1), vocabulary);
    joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
    const int32_t result = table.Intern(joined, vocabulary);
    Slot& slot = table.slots_[table.SlotOf(left, right)];
    if (slot.left < 0) slot = {left, right, {static_cast<int32_t>(rank), result}};  // of equal merges the first counts
  }
  return table;
}

int32_t MergeTable::Find(std::string_view text) const {
  const auto found = indices_.find(text);
  return found == indices_.end() ? -1 : found->second;
}

const MergeTable::Merge* MergeTable::FindMerge(int32_t left, int32_t right) const {
  if (left < 0 || right < 0) return nullptr;
  const Slot& slot = slots_[SlotOf(left, right)];
  return slot.left < 0 ? nullptr : &slot.merge;
}

}  // namespace moonlit
