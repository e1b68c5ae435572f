// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/text_table.h"

#include <algorithm>

namespace moonlit {

void TextTable::Reserve(size_t count, size_t bytes) {
  bytes_.reserve(bytes);
  ends_.reserve(count);
  size_t slots = 16;
  while (slots < 2 * count) slots *= 2;
  if (slots > slots_.size()) Grow(slots);
}

int32_t TextTable::Add(std::string_view text) {
  if (2 * (ends_.size() + 1) > slots_.size()) Grow(slots_.empty() ? 16 : 2 * slots_.size());
  const int32_t number = size();
  int32_t& slot = slots_[SlotOf(text)];
  if (slot < 0) slot = number;
  bytes_ += text;
  ends_.push_back(bytes_.size());
  return number;
}

int32_t TextTable::Find(std::string_view text) const { return slots_.empty() ? -1 : slots_[SlotOf(text)]; }

size_t TextTable::FirstSlotOf(std::string_view text) const {
  return static_cast<size_t>(KeyedHash(text, key_) & (slots_.size() - 1));
}

size_t TextTable::LongestProbe() const {
  size_t longest = 0;
  for (int32_t number = 0; number < size(); ++number) {
    const size_t probe = SlotOf((*this)[number]) - FirstSlotOf((*this)[number]);
    longest = std::max(longest, probe & (slots_.size() - 1));
  }
  return longest;
}

size_t TextTable::SlotOf(std::string_view text) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = FirstSlotOf(text);
  while (slots_[slot] >= 0 && (*this)[slots_[slot]] != text) slot = (slot + 1) & mask;
  return slot;
}

void TextTable::Grow(size_t slots) {
  slots_.assign(slots, -1);
  for (int32_t number = 0; number < size(); ++number) {
    int32_t& slot = slots_[SlotOf((*this)[number])];
    if (slot < 0) slot = number;
  }
}

}  // namespace moonlit
