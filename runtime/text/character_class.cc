// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/character_class.h"

#include <algorithm>

namespace moonlit {
namespace {

constexpr char32_t kLast = 0x10FFFF;

CharacterRanges Union(CharacterRanges ranges) {
  std::erase_if(ranges, [](const auto& range) { return range.first > range.second; });
  std::sort(ranges.begin(), ranges.end());
  CharacterRanges out;
  for (const auto& [first, last] : ranges) {
    if (!out.empty() && first <= out.back().second + 1) {
      out.back().second = std::max(out.back().second, last);
    } else {
      out.emplace_back(first, last);
    }
  }
  return out;
}

CharacterRanges Complement(const CharacterRanges& ranges) {
  CharacterRanges out;
  char32_t next = 0;
  for (const auto& [first, last] : ranges) {
    if (first > next) out.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kLast) out.emplace_back(next, kLast);
  return out;
}

// The part of ascending ranges that lies in [first, last].
CharacterRanges Within(const CharacterRanges& ranges, char32_t first, char32_t last) {
  CharacterRanges out;
  auto at = std::lower_bound(ranges.begin(), ranges.end(), first,
                             [](const auto& range, char32_t value) { return range.second < value; });
  for (; at != ranges.end() && at->first <= last; ++at)
    out.emplace_back(std::max(at->first, first), std::min(at->second, last));
  return out;
}

}  // namespace

CharacterRanges NormalizeRanges(CharacterRanges ranges, bool negated) {
  for (auto& range : ranges) range.second = std::min(range.second, kLast);
  ranges = Union(std::move(ranges));
  if (negated) ranges = Complement(ranges);
  CharacterRanges well_formed;
  for (const auto& gap : Complement({{0xD800, 0xDFFF}})) {
    for (const auto& part : Within(ranges, gap.first, gap.second)) well_formed.push_back(part);
  }
  return well_formed;
}

CharacterClass::CharacterClass(CharacterRanges ranges) : ranges_(std::move(ranges)) {
  table_.emplace_back().fill(kFail);
  for (const auto& [first, last] : Within(ranges_, 0, 0x7F)) {
    for (char32_t c = first; c <= last; ++c) table_[0][c] = kDone;
  }
  // Lead bytes of two, three and four bytes, and the code points that may be written with as many.
  static constexpr struct {
    int lead, count, remaining;
    char32_t first, last;
  } kForms[] = {{0xC0, 32, 1, 0x80, 0x7FF}, {0xE0, 16, 2, 0x800, 0xFFFF}, {0xF0, 8, 3, 0x10000, kLast}};
  const CharacterRanges all = ranges_;
  for (const auto& form : kForms) {
    ranges_ = Within(all, form.first, form.last);
    std::vector<std::pair<std::pair<int, CharacterRanges>, uint16_t>> known;
    for (int i = 0; i < form.count; ++i) {
      const uint16_t state = Continue(form.remaining, static_cast<char32_t>(i), &known);
      table_[0][static_cast<size_t>(form.lead + i)] = state;
    }
  }
  ranges_ = all;
}

uint16_t CharacterClass::Continue(int remaining, char32_t base,
                                  std::vector<std::pair<std::pair<int, CharacterRanges>, uint16_t>>* known) {
  const char32_t width = char32_t{1} << (6 * remaining), start = base << (6 * remaining);
  CharacterRanges inside = Within(ranges_, start, start + width - 1);
  if (inside.empty()) return kFail;
  if (remaining == 0) return kDone;
  for (auto& range : inside) range = {range.first - start, range.second - start};
  const std::pair<int, CharacterRanges> key(remaining, std::move(inside));
  for (const auto& [held, state] : *known) {
    if (held == key) return state;
  }
  const auto state = static_cast<uint16_t>(table_.size());
  table_.emplace_back().fill(kFail);
  known->emplace_back(key, state);
  for (char32_t i = 0; i < 64; ++i) {
    const uint16_t next = Continue(remaining - 1, base << 6 | i, known);
    table_[state][0x80 | i] = next;
  }
  return state;
}

}  // namespace moonlit
