// SPDX-License-Identifier: Apache-2.0
// Many short strings, numbered in the order they come, in three blocks of memory instead of one or two for each: vocabularies have
// up to a quarter of a million. Not safe to change while others read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/keyed_hash.h"

namespace moonlit {

class TextTable {
 public:
  // Memory for that many strings of that many bytes in all; more may come.
  void Reserve(size_t count, size_t bytes);
  // Its number. Of equal texts Find returns the first. Invalidates what operator[] returned.
  int32_t Add(std::string_view text);
  int32_t Find(std::string_view text) const;  // -1: not there

  // Slots that the search for the worst of the texts goes through; goes through the table.
  size_t LongestProbe() const;

  int32_t size() const { return static_cast<int32_t>(ends_.size()); }
  std::string_view operator[](int32_t number) const {
    const size_t begin = number == 0 ? 0 : ends_[static_cast<size_t>(number) - 1];
    return {bytes_.data() + begin, ends_[static_cast<size_t>(number)] - begin};
  }

 private:
  // Where a text is, or the empty slot it would take.
  size_t SlotOf(std::string_view text) const;
  size_t FirstSlotOf(std::string_view text) const;
  void Grow(size_t slots);

  std::string bytes_;
  std::vector<size_t> ends_;
  HashKey key_ = ProcessHashKey();
  std::vector<int32_t> slots_;  // open addressing, a power of two, at most half full; -1: empty
};

}  // namespace moonlit
