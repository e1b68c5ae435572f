// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/special_split.h"

#include <algorithm>

namespace moonlit {
namespace {

bool IsAsciiSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool LiesInOneRange(size_t begin, size_t end, const std::vector<ParsedRange>& ranges) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), begin,
                                      [](size_t at, const ParsedRange& range) { return at < range.begin; });
  return after != ranges.begin() && end <= std::prev(after)->end;
}

}  // namespace

SpecialSplitter::SpecialSplitter(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.IsControl(id) || vocabulary.IsUserDefined(id) || vocabulary.IsUnknown(id)) specials_.push_back(id);
  }
  std::stable_sort(specials_.begin(), specials_.end(),
                   [&](int32_t a, int32_t b) { return vocabulary.Text(a).size() > vocabulary.Text(b).size(); });
  nodes_.emplace_back();
  for (size_t rank = 0; rank < specials_.size(); ++rank)
    Insert(vocabulary.Text(specials_[rank]), static_cast<int32_t>(rank));
}

void SpecialSplitter::Insert(std::string_view text, int32_t rank) {
  int32_t at = 0;
  for (const char byte : text) {
    int32_t child = nodes_[at].first_child;
    while (child >= 0 && nodes_[child].byte != byte) child = nodes_[child].next_sibling;
    if (child < 0) {
      child = static_cast<int32_t>(nodes_.size());
      nodes_.push_back(Node{.first_child = -1, .next_sibling = nodes_[at].first_child, .rank = -1, .byte = byte});
      nodes_[at].first_child = child;
    }
    at = child;
  }
  if (nodes_[at].rank < 0) nodes_[at].rank = rank;
}

// One pass that says which tokens occur at all: usually none or a few of thousands, and only those are searched for.
std::vector<bool> SpecialSplitter::FindPresent(std::string_view text, bool parses) const {
  std::vector<bool> present(specials_.size(), false);
  for (size_t begin = 0; begin < text.size(); ++begin) {
    int32_t at = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      int32_t child = nodes_[at].first_child;
      while (child >= 0 && nodes_[child].byte != text[i]) child = nodes_[child].next_sibling;
      if (child < 0) break;
      at = child;
      const int32_t rank = nodes_[at].rank;
      if (rank >= 0 && (parses || vocabulary_.IsUserDefined(specials_[rank]))) present[rank] = true;
    }
  }
  return present;
}

void SpecialSplitter::CutOut(std::string_view text, int32_t id, const std::vector<ParsedRange>& ranges,
                             std::vector<TextPart>* parts) const {
  const std::string& token = vocabulary_.Text(id);
  const bool anywhere = !vocabulary_.IsControl(id) && !vocabulary_.IsUnknown(id);
  std::vector<TextPart> cut;
  cut.reserve(parts->size());
  for (const TextPart& part : *parts) {
    if (part.token != kNoToken) {
      cut.push_back(part);
      continue;
    }
    size_t rest = part.begin;
    size_t search = part.begin;
    while (search < part.end) {
      const size_t match = text.substr(0, part.end).find(token, search);
      if (match == std::string_view::npos) break;
      size_t after = match + token.size();
      if (!anywhere && !LiesInOneRange(match, after, ranges)) {
        search = match + 1;
        continue;
      }
      size_t left_end = match;
      if (vocabulary_.StripsLeft(id)) {
        while (left_end > rest && IsAsciiSpace(text[left_end - 1])) --left_end;
      }
      if (left_end > rest) cut.push_back({.begin = rest, .end = left_end});
      cut.push_back({.token = id});
      if (vocabulary_.StripsRight(id)) {
        while (after < part.end && IsAsciiSpace(text[after])) ++after;
      }
      rest = search = after;
    }
    if (rest < part.end) cut.push_back({.begin = rest, .end = part.end});
  }
  *parts = std::move(cut);
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
