// SPDX-License-Identifier: Apache-2.0
// Cuts a text at the special tokens written out in it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/text/automaton.h"
#include "runtime/text/vocabulary.h"

namespace moonlit {

// Either a token or the bytes [begin, end) of the text.
struct TextPart {
  int32_t token = kNoToken;
  size_t begin = 0;
  size_t end = 0;
};

// A stretch [begin, end) of the text inside which control and unknown tokens are read.
struct ParsedRange {
  size_t begin = 0;
  size_t end = 0;
};

// Immutable; one a vocabulary. Longer tokens are cut out first wherever they stand, then shorter ones in what is left,
// equal lengths in the order of their ids (llama.cpp's order; a leftmost-longest search would differ where two tokens
// overlap). Splitting takes time in proportion to the text for each token that occurs in it, whatever
// their lengths.
class SpecialSplitter {
 public:
  explicit SpecialSplitter(const Vocabulary& vocabulary);
  // ranges ascend and do not overlap. User-defined tokens are cut out everywhere. The parts cover the text but for the
  // white space that a stripping token took.
  std::vector<TextPart> Split(std::string_view text, const std::vector<ParsedRange>& ranges) const;

 private:
  std::vector<bool> FindPresent(std::string_view text, bool parses) const;
  void CutOut(std::string_view text, int32_t id, const std::vector<ParsedRange>& ranges,
              std::vector<TextPart>* parts) const;
  size_t CutAt(std::string_view text, int32_t id, size_t match, const TextPart& part, std::vector<TextPart>* cut) const;

  const Vocabulary& vocabulary_;
  std::vector<int32_t> specials_;  // longest first
  WordAutomaton automaton_;        // of their texts; values are indices into specials_
};

}  // namespace moonlit
