// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/json_schema_pattern.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <span>

#include "runtime/text/character_class.h"
#include "runtime/text/gbnf_text.h"
#include "runtime/text/utf8.h"

namespace moonlit {
namespace {

constexpr int kMostDepth = 40;  // of groups
constexpr size_t kMostRanges = 4096;
constexpr uint32_t kMostTimes = 1000000;

using Range = CharacterRanges::value_type;
constexpr Range kDigits[] = {{'0', '9'}};
constexpr Range kWord[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
constexpr Range kSpace[] = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                            {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
constexpr Range kLineEnds[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

CharacterRanges Set(std::span<const Range> ranges) { return {ranges.begin(), ranges.end()}; }

bool Has(std::span<const Range> set, char32_t code) {
  return std::any_of(set.begin(), set.end(), [&](const auto& r) { return r.first <= code && code <= r.second; });
}

// Characters that a JSON string has only escaped, and how (RFC 8259, 7). DEL is for readers that refuse it.
struct Escape {
  char32_t code;
  const char* gbnf;
};
constexpr Escape kEscapes[] = {{'"', "\"\\\\\\\"\""}, {'\\', "\"\\\\\\\\\""}, {'\b', "\"\\\\b\""}, {'\t', "\"\\\\t\""},
                               {'\n', "\"\\\\n\""},   {'\f', "\"\\\\f\""},    {'\r', "\"\\\\r\""}};
constexpr Range kEscaped[] = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}};

class PatternReader {
 public:
  explicit PatternReader(std::string_view text) : text_(text) {}

  Result<std::string> Run() {
    MOONLIT_ASSIGN_OR_RETURN(const std::string all, Alternatives(0));
    if (!AtEnd()) return Fault("a ) without a (");
    return all;
  }

 private:
  Status Fault(const char* what) const {
    return Errorf(Code::kUnsupported, "at character %zu of the pattern: %s", at_ + 1, what);
  }
  bool AtEnd() const { return at_ >= text_.size(); }
  char Now() const { return AtEnd() ? '\0' : text_[at_]; }
  bool Take(char c) {
    if (AtEnd() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<std::string> Alternatives(int depth) {
    if (depth > kMostDepth) return Fault("groups are nested too deeply");
    std::string all;
    do {
      MOONLIT_ASSIGN_OR_RETURN(const std::string one, Sequence(depth));
      AddChoice(all, one);
    } while (Take('|'));
    return all;
  }

  Result<std::string> Sequence(int depth) {
    const bool whole = depth == 0;
    std::string out = whole && !Take('^') ? "char*" : "\"\"";
    bool ends = false;
    while (!AtEnd() && Now() != '|' && Now() != ')') {
      if (whole && Take('$')) {
        ends = true;
        if (!AtEnd() && Now() != '|') return Fault("nothing can follow a $");
        break;
      }
      MOONLIT_ASSIGN_OR_RETURN(const std::string term, Term(depth));
      out += " " + term;
      if (out.size() > kMostGrammarText)
        return Errorf(Code::kExhausted, "the pattern's grammar takes more than %zu bytes", kMostGrammarText);
    }
    return out + (whole && !ends ? " char*" : "");
  }

  Result<std::string> Term(int depth) {
    MOONLIT_ASSIGN_OR_RETURN(const std::string atom, Atom(depth));
    MOONLIT_ASSIGN_OR_RETURN(const std::string times, Times());
    if (!times.empty()) Take('?');
    return atom + times;
  }

  Result<std::string> Times() {
    for (const char* one : {"*", "+", "?"}) {
      if (Take(*one)) return std::string(one);
    }
    if (!Take('{')) return std::string();
    MOONLIT_ASSIGN_OR_RETURN(const uint32_t least, Number());
    std::string times = "{" + std::to_string(least);
    if (Take(',')) {
      times += ',';
      if (Now() != '}') {
        MOONLIT_ASSIGN_OR_RETURN(const uint32_t most, Number());
        if (most < least) return Fault("a repetition ends before it begins");
        times += std::to_string(most);
      }
    }
    if (!Take('}')) return Fault("expected } behind a repetition");
    return times + "}";
  }
  Result<uint32_t> Number() {
    uint32_t value = 0;
    if (Now() < '0' || Now() > '9') return Fault("expected a number of repetitions");
    for (; Now() >= '0' && Now() <= '9'; ++at_) {
      value = value * 10 + static_cast<uint32_t>(Now() - '0');
      if (value > kMostTimes) return Fault("too many repetitions");
    }
    return value;
  }

  Result<std::string> Atom(int depth) {
    if (Take('(')) {
      if (Take('?') && !Take(':')) return Fault("of groups that begin with (? only (?: can be followed");
      MOONLIT_ASSIGN_OR_RETURN(const std::string inner, Alternatives(depth + 1));
      if (!Take(')')) return Fault("expected ) at the end of a group");
      return "(" + inner + ")";
    }
    if (Take('.')) return Spelled(NormalizeRanges(Set(kLineEnds), true));
    if (Take('[')) return Class();
    if (std::string_view("*+?{").find(Now()) != std::string_view::npos && !AtEnd())
      return Fault("there is nothing to repeat");
    if (Now() == '^' || Now() == '$') return Fault("^ and $ can be followed at the ends of the pattern alone");
    bool one = false;
    MOONLIT_ASSIGN_OR_RETURN(const CharacterRanges set, Characters(&one));
    return Spelled(NormalizeRanges(set, false));
  }

  Result<std::string> Class() {
    const bool negated = Take('^');
    CharacterRanges set;
    while (!Take(']')) {
      if (AtEnd()) return Fault("expected ] at the end of a class");
      bool one = false, other = false;
      MOONLIT_ASSIGN_OR_RETURN(CharacterRanges part, Characters(&one));
      if (Now() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        MOONLIT_ASSIGN_OR_RETURN(const CharacterRanges last, Characters(&other));
        if (!one || !other) return Fault("a range goes from one character to another");
        if (last[0].first < part[0].first) return Fault("a range ends before it begins");
        part[0].second = last[0].first;
      }
      if (set.size() + part.size() > kMostRanges) return Fault("too many ranges in a class");
      set.insert(set.end(), part.begin(), part.end());
    }
    return Spelled(NormalizeRanges(std::move(set), negated));
  }

  // One character, escaped or not (*one), or those that an escape stands for.
  Result<CharacterRanges> Characters(bool* one) {
    *one = true;
    if (!Take('\\')) {
      const size_t length = Utf8CharLength(text_.substr(at_));
      if (length == 0) return Fault("expected UTF-8");
      const char32_t code = Utf8Decode(text_.substr(at_), length);
      at_ += length;
      return CharacterRanges{{code, code}};
    }
    const char name = Now();
    if (AtEnd()) return Fault("expected a character behind a backslash");
    ++at_;
    static constexpr std::string_view kNames = "tnvfr0", kMeanings{"\t\n\v\f\r\0", 6};
    if (const size_t i = kNames.find(name); i != std::string_view::npos) {
      if (name == '0' && Now() >= '0' && Now() <= '9') return Fault("octal numbers can't be followed");
      return CharacterRanges{{static_cast<unsigned char>(kMeanings[i]), static_cast<unsigned char>(kMeanings[i])}};
    }
    if (name == 'x' || name == 'u') return Hexadecimal(name == 'x' ? 2 : 4);
    const char lower = static_cast<char>(name | 0x20);
    if (lower == 'd' || lower == 'w' || lower == 's') {
      *one = false;
      return NormalizeRanges(lower == 'd' ? Set(kDigits) : lower == 'w' ? Set(kWord) : Set(kSpace), name != lower);
    }
    const bool punctuation = static_cast<unsigned char>(name) < 0x80 && !Has(kWord, static_cast<unsigned char>(name));
    if (!punctuation) return Fault("this escape can't be followed");
    return CharacterRanges{{static_cast<unsigned char>(name), static_cast<unsigned char>(name)}};
  }

  // Behind \x or \u; surrogates by twos.
  Result<CharacterRanges> Hexadecimal(size_t digits) {
    const bool braces = digits == 4 && Take('{');
    char32_t code = 0;
    size_t n = 0;
    for (; n < (braces ? 6 : digits); ++n, ++at_) {
      const char lower = static_cast<char>(Now() | 0x20);
      const bool digit = Now() >= '0' && Now() <= '9';
      if (!digit && !(lower >= 'a' && lower <= 'f')) break;
      code = code << 4 | static_cast<char32_t>(digit ? Now() - '0' : lower - 'a' + 10);
    }
    if (n == 0 || (!braces && n != digits) || (braces && !Take('}'))) return Fault("expected a hexadecimal number");
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
      return Fault("a surrogate, or no character's number: write \\u{...}");
    return CharacterRanges{{code, code}};
  }

  // A character of the set as it stands in a JSON string.
  Result<std::string> Spelled(const CharacterRanges& set) const {
    if (set.size() == 1 && set[0].first == set[0].second && !Has(kEscaped, set[0].first)) {
      std::string character;
      Utf8Append(set[0].first, &character);
      return Quoted(character);
    }
    std::string choices;
    AddChoice(choices, Plain(set));
    for (const Escape& escape : kEscapes) {
      if (Has(set, escape.code)) AddChoice(choices, escape.gbnf);
    }
    // What has no name is written where there is nothing else.
    for (char32_t code = 0; choices.empty() && code <= 0x7F; ++code) {
      char text[16];
      std::snprintf(text, sizeof text, "\"\\\\u%04x\"", static_cast<unsigned>(code));
      if (Has(set, code)) AddChoice(choices, text);
    }
    if (choices.empty()) return Fault("a class without characters");
    return "(" + choices + ")";
  }
  // A class of those that need no escape; empty: there are none.
  static std::string Plain(const CharacterRanges& set) {
    CharacterRanges excluded = NormalizeRanges(set, true);
    excluded.insert(excluded.end(), std::begin(kEscaped), std::end(kEscaped));
    const CharacterRanges plain = NormalizeRanges(std::move(excluded), true);
    std::string text;
    for (const auto& [first, last] : plain) {
      char range[32];
      std::snprintf(range, sizeof range, "\\U%08X-\\U%08X", static_cast<unsigned>(first), static_cast<unsigned>(last));
      text += range;
    }
    return text.empty() ? "" : "[" + text + "]";
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<std::string> BodyOfPattern(std::string_view pattern) { return PatternReader(pattern).Run(); }

}  // namespace moonlit
