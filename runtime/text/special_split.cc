// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/special_split.h"

#include <algorithm>
#include <cstring>

namespace moonlit {
namespace {

const ParsedRange* FirstThatEndsAfter(size_t at, const std::vector<ParsedRange>& ranges) {
  return std::partition_point(ranges.data(), ranges.data() + ranges.size(),
                              [at](const ParsedRange& range) { return range.end <= at; });
}

bool IsAsciiSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Places of one word in a text, from left to right, without going back in the text (Knuth, Morris and Pratt 1977): std::string's
// search compares the whole word again at each place of a text that nearly repeats it.
class WordSearch {
 public:
  explicit WordSearch(std::string_view word) : word_(word), border_(word.size(), 0) {
    for (size_t i = 1, matched = 0; i < word.size(); ++i) {
      matched = Extend(matched, word[i]);
      border_[i] = matched;
    }
  }
  // The first place in text[begin, end); npos if there is none.
  size_t Find(std::string_view text, size_t begin, size_t end) const {
    size_t matched = 0;
    for (size_t i = begin; i < end; ++i) {
      if (matched == 0) {
        const void* first = std::memchr(text.data() + i, word_[0], end - i);
        if (first == nullptr) return std::string_view::npos;
        i = static_cast<size_t>(static_cast<const char*>(first) - text.data());
      }
      matched = Extend(matched, text[i]);
      if (matched == word_.size()) return i + 1 - matched;
    }
    return std::string_view::npos;
  }

 private:
  // `matched` bytes of the word end before `byte`; how many end with it.
  size_t Extend(size_t matched, char byte) const {
    while (matched > 0 && word_[matched] != byte) matched = border_[matched - 1];
    return word_[matched] == byte ? matched + 1 : 0;
  }
  std::string_view word_;
  std::vector<size_t> border_;  // of the word's first i + 1 bytes: the longest proper prefix that is a suffix too
};

}  // namespace

SpecialSplitter::SpecialSplitter(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.IsControl(id) || vocabulary.IsUserDefined(id) || vocabulary.IsUnknown(id)) specials_.push_back(id);
  }
  std::stable_sort(specials_.begin(), specials_.end(),
                   [&](int32_t a, int32_t b) { return vocabulary.Text(a).size() > vocabulary.Text(b).size(); });
  for (size_t rank = 0; rank < specials_.size(); ++rank)
    automaton_.Add(vocabulary.Text(specials_[rank]), static_cast<int32_t>(rank));
  automaton_.Finish();
}

// One pass that says which tokens occur at all: usually none or a few of thousands, and only those are searched for.
std::vector<bool> SpecialSplitter::FindPresent(std::string_view text, bool parses) const {
  std::vector<bool> seen(specials_.size(), false);
  int32_t state = WordAutomaton::kStart;
  for (const char byte : text) {
    state = automaton_.Step(state, byte);
    // Below a word that was seen before, all are.
    for (int32_t word = automaton_.Longest(state); word >= 0 && !seen[automaton_.Value(word)];
         word = automaton_.Shorter(word)) {
      seen[automaton_.Value(word)] = true;
    }
  }
  for (size_t rank = 0; !parses && rank < seen.size(); ++rank) {
    if (!vocabulary_.IsUserDefined(specials_[rank])) seen[rank] = false;
  }
  return seen;
}

void SpecialSplitter::CutOut(std::string_view text, int32_t id, const std::vector<ParsedRange>& ranges,
                             std::vector<TextPart>* parts) const {
  const std::string_view token = vocabulary_.Text(id);
  const WordSearch search(token);
  const bool anywhere = !vocabulary_.IsControl(id) && !vocabulary_.IsUnknown(id);
  const ParsedRange whole{.begin = 0, .end = text.size()};
  std::vector<TextPart> cut;
  cut.reserve(parts->size());
  for (const TextPart& part : *parts) {
    if (part.token != kNoToken) {
      cut.push_back(part);
      continue;
    }
    const ParsedRange* range = anywhere ? &whole : FirstThatEndsAfter(part.begin, ranges);
    const ParsedRange* const end = anywhere ? &whole + 1 : ranges.data() + ranges.size();
    size_t rest = part.begin;  // what is before it is in `cut`
    for (; range != end && range->begin < part.end; ++range) {
      const size_t range_end = std::min(range->end, part.end);
      for (;;) {
        const size_t match = search.Find(text, std::max(range->begin, rest), range_end);
        if (match == std::string_view::npos) break;
        rest = CutAt(text, id, match, TextPart{.begin = rest, .end = part.end}, &cut);
      }
    }
    if (rest < part.end) cut.push_back({.begin = rest, .end = part.end});
  }
  *parts = std::move(cut);
}

// Appends what is left of the token at `match` and the token; returns where the rest of the part begins.
size_t SpecialSplitter::CutAt(std::string_view text, int32_t id, size_t match, const TextPart& part,
                              std::vector<TextPart>* cut) const {
  size_t left_end = match;
  if (vocabulary_.StripsLeft(id)) {
    while (left_end > part.begin && IsAsciiSpace(text[left_end - 1])) --left_end;
  }
  if (left_end > part.begin) cut->push_back({.begin = part.begin, .end = left_end});
  cut->push_back({.token = id});
  size_t after = match + vocabulary_.Text(id).size();
  if (vocabulary_.StripsRight(id)) {
    while (after < part.end && IsAsciiSpace(text[after])) ++after;
  }
  return after;
}

std::vector<TextPart> SpecialSplitter::Split(std::string_view text, const std::vector<ParsedRange>& ranges) const {
  std::vector<TextPart> parts;
  if (text.empty()) return parts;
  parts.push_back({.begin = 0, .end = text.size()});
  const std::vector<bool> present = FindPresent(text, !ranges.empty());
  for (size_t rank = 0; rank < present.size(); ++rank) {
    if (present[rank]) CutOut(text, specials_[rank], ranges, &parts);
  }
  return parts;
}

}  // namespace moonlit
