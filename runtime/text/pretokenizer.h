// SPDX-License-Identifier: Apache-2.0
// Cuts text into the words that byte-level BPE merges within. Which patterns do it is named in the model file
// ("tokenizer.ggml.pre"); pretokenizers.inc is the list.
//
// A pre-tokenizer is a list of patterns. The first one cuts the text into its matches and the stretches between them;
// each next one cuts every piece of the one before, and a look-ahead sees no further than its piece (Hugging Face's
// Split, behaviour "isolated").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/regex.h"

namespace moonlit {

enum PreTokenizerFlags : unsigned {
  kPlain = 0,
  kIgnoreMerges = 1,   // a word that is a token as a whole is that token, whatever the merges would make of it
  kAddBos = 2,         // the file's silence means yes
  kKeepSpaces = 4,     // decoding has no clean-up of spaces before punctuation
  kNfc = 8,            // text is brought to Unicode normalization form C first
  kUtf8Tokens = 16,    // tokens are plain UTF-8 with U+2581 for the space, not bytes in GPT-2's alphabet
  kNoDefaultBos = 32,  // there is no BOS unless the file names one
  kNewlineRuns = 64,   // a run of newlines that is a token is that token
};

// One pre-tokenizer, immutable and safe to share.
class PreTokenizer {
 public:
  // The name as in the file; "" is "default". kUnsupported for a name that is not in the list.
  static Result<PreTokenizer> Create(std::string_view name);
  static std::vector<std::string_view> KnownNames();
  struct Known {
    std::string_view name;
    unsigned flags;
  };
  // Those with exactly these patterns, in the order of the list.
  static std::vector<Known> KnownWithPatterns(const std::vector<std::string>& patterns);

  // Lengths in bytes of the words of text, in order; they add up to text.size() and none is 0. text must be well-formed
  // UTF-8.
  Status Split(std::string_view text, std::vector<size_t>* lengths) const;
  bool Has(PreTokenizerFlags flag) const { return flags_ & flag; }

 private:
  // A pattern, or one of the two rules that a pattern can't do in linear time.
  enum class Rule { kPattern, kDigitsFromRight, kDigitsFromRightAtWordEnd };
  struct Step {
    Rule rule;
    std::vector<Regex> pattern;  // one for kPattern, else none
  };
  static Result<Step> MakeStep(std::string_view pattern);

  std::vector<Step> steps_;
  unsigned flags_ = 0;
};

}  // namespace moonlit
