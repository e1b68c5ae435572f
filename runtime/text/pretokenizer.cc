// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/pretokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "runtime/base/quote.h"
#include "runtime/text/utf8.h"

namespace moonlit {
namespace {

// Nothing is dropped between the lists and the table: the file is included twice, once for each macro.
#define MOONLIT_PATTERNS(list, ...) constexpr std::string_view kPatterns_##list[] = {__VA_ARGS__};
#define MOONLIT_PRETOKENIZER(name, list, flags)
#include "runtime/text/pretokenizers.inc"

struct Row {
  std::string_view name;
  const std::string_view* patterns;
  size_t count;
  unsigned flags;
};
constexpr Row kRows[] = {
#define MOONLIT_PATTERNS(list, ...)
#define MOONLIT_PRETOKENIZER(name, list, flags) {name, kPatterns_##list, std::size(kPatterns_##list), flags},
#include "runtime/text/pretokenizers.inc"
};

bool IsDigit(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND; }

// What \w matches: letters, marks, numbers, connector punctuation.
bool IsWordCharacter(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO) || category == UTF8PROC_CATEGORY_PC;
}

// Cuts runs of digits into threes counted from the end of the run; with at_word_end only runs that no word character
// follows.
void SplitDigits(std::string_view text, bool at_word_end, std::vector<size_t>* lengths) {
  size_t gap = 0;  // bytes since the last cut
  std::vector<size_t> run;
  const auto flush_gap = [&] {
    if (gap != 0) lengths->push_back(gap);
    gap = 0;
  };
  for (size_t at = 0; at < text.size();) {
    run.clear();
    size_t end = at;
    while (end < text.size()) {
      const size_t length = Utf8CharLength(text.substr(end));
      if (!IsDigit(Utf8Decode(text.substr(end), length))) break;
      run.push_back(length);
      end += length;
    }
    if (run.empty()) {
      const size_t length = Utf8CharLength(text.substr(at));
      gap += length;
      at += length;
      continue;
    }
    const bool word_goes_on =
        end < text.size() && IsWordCharacter(Utf8Decode(text.substr(end), Utf8CharLength(text.substr(end))));
    if (at_word_end && word_goes_on) {
      gap += end - at;
    } else {
      flush_gap();
      size_t group = 0;
      for (size_t i = 0; i < run.size(); ++i) {
        group += run[i];
        if ((run.size() - i - 1) % 3 == 0) {
          lengths->push_back(group);
          group = 0;
        }
      }
    }
    at = end;
  }
  flush_gap();
}

Status SplitByPattern(const Regex& regex, Regex::Matcher* matcher, std::string_view piece,
                      std::vector<size_t>* lengths) {
  size_t gap = 0;
  size_t from = 0;
  while (from < piece.size()) {
    MOONLIT_ASSIGN_OR_RETURN(const Regex::Matcher::Match match, matcher->Find(regex, piece, from));
    if (!match.found) break;
    if (match.end == match.begin) {  // no pattern of the list matches nothing, but a loop must not depend on it
      from = match.begin + (match.begin < piece.size() ? Utf8CharLength(piece.substr(match.begin)) : 1);
      continue;
    }
    if (match.begin > gap) lengths->push_back(match.begin - gap);
    lengths->push_back(match.end - match.begin);
    gap = from = match.end;
  }
  if (gap < piece.size()) lengths->push_back(piece.size() - gap);
  return Status();
}

}  // namespace

std::vector<std::string_view> PreTokenizer::KnownNames() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.push_back(row.name);
  return names;
}

std::vector<PreTokenizer::Known> PreTokenizer::KnownWithPatterns(const std::vector<std::string>& patterns) {
  std::vector<Known> found;
  for (const Row& row : kRows) {
    if (std::equal(patterns.begin(), patterns.end(), row.patterns, row.patterns + row.count))
      found.push_back({row.name, row.flags});
  }
  return found;
}

Result<PreTokenizer::Step> PreTokenizer::MakeStep(std::string_view pattern) {
  Step step{Rule::kPattern, {}};
  if (pattern == "[digits from right]") {
    step.rule = Rule::kDigitsFromRight;
  } else if (pattern == "[digits from right at word end]") {
    step.rule = Rule::kDigitsFromRightAtWordEnd;
  } else {
    MOONLIT_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(pattern));
    step.pattern.push_back(std::move(regex));
  }
  return step;
}

Result<PreTokenizer> PreTokenizer::Create(std::string_view name) {
  if (name.empty()) name = "default";
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    PreTokenizer result;
    result.flags_ = row.flags;
    for (size_t i = 0; i < row.count; ++i) {
      MOONLIT_ASSIGN_OR_RETURN(Step step, MakeStep(row.patterns[i]));
      result.steps_.push_back(std::move(step));
    }
    return result;
  }
  return Errorf(Code::kUnsupported,
                "tokenizer.ggml.pre is %s, a pre-tokenizer this build does not know; if the model's words are "
                "cut as those of a known one (qwen2, llama-bpe, gpt-2, ...), name it with --pre",
                QuoteForMessage(name).c_str());
}

Status PreTokenizer::Split(std::string_view text, std::vector<size_t>* lengths) const {
  lengths->clear();
  if (text.empty()) return Status();
  lengths->push_back(text.size());
  Regex::Matcher matcher;
  std::vector<size_t> next;
  for (const Step& step : steps_) {
    next.clear();
    size_t begin = 0;
    for (const size_t length : *lengths) {
      const std::string_view piece = text.substr(begin, length);
      begin += length;
      if (step.rule == Rule::kPattern) {
        MOONLIT_RETURN_IF_ERROR(SplitByPattern(step.pattern[0], &matcher, piece, &next));
      } else {
        SplitDigits(piece, step.rule == Rule::kDigitsFromRightAtWordEnd, &next);
      }
    }
    lengths->swap(next);
  }
  return Status();
}

}  // namespace moonlit
