// SPDX-License-Identifier: Apache-2.0
// From token bytes to text that can be shown at once: whole UTF-8 characters only.
//
//   TokenStream stream(tokenizer, /*show_special=*/false, /*at_start=*/false);
//   for (int32_t id : generated) Show(stream.Add(id));
//   Show(stream.Finish());
//
// Both classes belong to one thread at a time and hold at most three bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/text/tokenizer.h"

namespace moonlit {

// Holds back the cut character at the end of what it was given, nothing else. Bytes that can never become a character
// leave at once as U+FFFD, one for each maximal run that began a character rightly (Unicode, 3.9, "substitution of
// maximal subparts"), and what follows them is kept.
class Utf8Stream {
 public:
  // The text that is complete now; may be empty.
  std::string Add(std::string_view bytes);
  // The held bytes that never became a character, as one U+FFFD; empty if none are held. The stream can then be used
  // anew.
  std::string Finish();
  bool holds_bytes() const { return !held_.empty(); }

 private:
  std::string held_;
};

// Token ids in, text out. The concatenation of all that Add and Finish return is Decode's result for the same ids, with
// invalid UTF-8 made valid as above (so equal byte for byte if Decode gives valid UTF-8).
class TokenStream {
 public:
  // at_start: the first id begins a sequence (nothing stood before it, not even a prompt). The tokenizer must outlive
  // the stream.
  TokenStream(const Tokenizer& tokenizer, bool show_special, bool at_start)
      : tokenizer_(&tokenizer),
        show_special_(show_special),
        strip_space_(at_start && tokenizer.strips_leading_space()) {}
  std::string Add(int32_t id);
  std::string Finish() { return utf8_.Finish(); }
  // Bytes of an id before they are made whole, for callers that watch for stop strings in bytes.
  std::string_view NextBytes(int32_t id);

 private:
  const Tokenizer* tokenizer_;
  bool show_special_;
  bool strip_space_;
  Utf8Stream utf8_;
};

}  // namespace moonlit
