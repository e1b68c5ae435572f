// SPDX-License-Identifier: Apache-2.0
// A compiled pattern (PCRE2, UTF and Unicode properties, interpreter only) that is safe on hostile input: the match
// keeps its state on the heap, so a small thread stack suffices, and its effort is limited in proportion to the input.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace moonlit {

// Immutable after Compile and safe to share between threads; each thread matches with its own Matcher.
class Regex {
 public:
  // `\s` and `\S` (outside classes) mean Unicode's White_Space property, as in the tokenizers' own engines; PCRE2's
  // would add U+180E. `$` means the end of the subject only. kInternal: the pattern does not compile.
  static Result<Regex> Compile(std::string_view pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  class Matcher {
   public:
    Matcher();
    ~Matcher();
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;
    // The leftmost match of regex in subject that begins at or after `from`. subject must be well-formed UTF-8 and
    // `from` the beginning of a character. found is false if there is none. kExhausted: the pattern gave up within its
    // limits.
    struct Match {
      bool found = false;
      size_t begin = 0;
      size_t end = 0;
    };
    Result<Match> Find(const Regex& regex, std::string_view subject, size_t from);

   private:
    struct Rep;
    std::unique_ptr<Rep> rep_;
  };

 private:
  struct Rep;
  explicit Regex(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace moonlit
