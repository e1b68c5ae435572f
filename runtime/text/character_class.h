// SPDX-License-Identifier: Apache-2.0
// Sets of characters as automata over UTF-8 bytes, so that a character which ends in the middle of a token needs no special care.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace moonlit {

// First and last code point.
using CharacterRanges = std::vector<std::pair<char32_t, char32_t>>;

// Ascending and apart, of well-formed characters alone: surrogates and what lies above U+10FFFF are left out. `ranges` in any order,
// overlapping or not. negated: all other characters. Equal for equal sets.
CharacterRanges NormalizeRanges(CharacterRanges ranges, bool negated);

class CharacterClass {
 public:
  static constexpr uint16_t kFail = 0xFFFF;
  static constexpr uint16_t kDone = 0xFFFE;

  // Of what NormalizeRanges returned.
  explicit CharacterClass(CharacterRanges ranges);

  // The state behind `byte`, from state 0 at the first byte of a character: kDone when the character is complete and in the set, kFail
  // when none of the set begins so.
  uint16_t Next(uint16_t state, uint8_t byte) const { return table_[state][byte]; }
  size_t states() const { return table_.size(); }  // 512 bytes each

 private:
  // The state for `remaining` more bytes of the code points from `base` on.
  uint16_t Continue(int remaining, char32_t base,
                    std::vector<std::pair<std::pair<int, CharacterRanges>, uint16_t>>* known);

  CharacterRanges ranges_;  // ascending, apart
  std::vector<std::array<uint16_t, 256>> table_;
};

}  // namespace moonlit
