// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <unordered_map>

#include "runtime/text/grammar_syntax.h"
#include "runtime/text/utf8.h"

namespace moonlit {
namespace {

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GrammarParser {
 public:
  explicit GrammarParser(std::string_view text) : text_(text) {}

  Result<GrammarSyntax> Run() {
    if (text_.size() > kMostGrammarBytes) {
      return Errorf(Code::kExhausted, "grammar: expected at most %zu bytes, found %zu", kMostGrammarBytes,
                    text_.size());
    }
    SkipSpace(true);
    while (at_ < text_.size()) {
      MOONLIT_RETURN_IF_ERROR(ReadRule());
      SkipSpace(true);
    }
    for (const GrammarRule& rule : syntax_.rules) {
      if (!rule.defined)
        return Errorf(Code::kInvalidArgument, "grammar, line %u, column %u: the rule \"%.64s\" is defined nowhere",
                      rule.line, rule.column, rule.name.c_str());
    }
    MOONLIT_RETURN_IF_ERROR(CheckLeftRecursion(syntax_));
    return std::move(syntax_);
  }

 private:
  using Sequence = GrammarItem::Sequence;

  char Now() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  uint32_t Column() const { return static_cast<uint32_t>(at_ - line_begin_ + 1); }
  Status Fault(const char* what, Code code = Code::kInvalidArgument) const {
    const std::string_view found = text_.substr(std::min(at_, text_.size()), 12);
    const std::string shown(found.substr(0, found.find('\n')));
    return Errorf(code, "grammar, line %u, column %u: %s, found %s%s%s", line_, Column(), what,
                  at_ < text_.size() ? "\"" : "the end", at_ < text_.size() ? Utf8ReplaceInvalid(shown).c_str() : "",
                  at_ < text_.size() ? "\"" : "");
  }

  // White space and comments; newlines if they mean nothing here.
  void SkipSpace(bool newlines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '\n' && newlines) {
        ++line_;
        line_begin_ = ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }

  Result<uint32_t> ReadName() {
    const uint32_t column = Column();
    size_t end = at_;
    while (end < text_.size() && IsNameCharacter(text_[end])) ++end;
    if (end == at_) return Fault("expected the name of a rule");
    const std::string name(text_.substr(at_, end - at_));
    at_ = end;
    const auto [found, added] = names_.emplace(name, static_cast<uint32_t>(syntax_.rules.size()));
    if (added) {
      if (syntax_.rules.size() >= kMostGrammarRules) return Fault("too many rules", Code::kExhausted);
      syntax_.rules.push_back({name, line_, column, false, {}});
    }
    return found->second;
  }

  Status ReadRule() {
    const uint32_t line = line_, column = Column();
    MOONLIT_ASSIGN_OR_RETURN(const uint32_t rule, ReadName());
    if (syntax_.rules[rule].defined)
      return Errorf(Code::kInvalidArgument, "grammar, line %u, column %u: the rule \"%.64s\" is defined twice", line,
                    column, syntax_.rules[rule].name.c_str());
    syntax_.rules[rule].defined = true;
    SkipSpace(false);
    if (text_.substr(at_, 3) != "::=") return Fault("expected ::=");
    at_ += 3;
    SkipSpace(true);
    MOONLIT_ASSIGN_OR_RETURN(std::vector<Sequence> alternatives, ReadAlternatives(0));
    syntax_.rules[rule].alternatives = std::move(alternatives);
    if (at_ < text_.size() && Now() != '\n') return Fault("expected the end of the line");
    return Status();
  }

  Result<std::vector<Sequence>> ReadAlternatives(int depth) {
    if (depth > kMostGrammarDepth) return Fault("groups are nested too deeply", Code::kExhausted);
    std::vector<Sequence> alternatives;
    while (true) {
      MOONLIT_ASSIGN_OR_RETURN(Sequence sequence, ReadSequence(depth));
      alternatives.push_back(std::move(sequence));
      if (!SkipBar(depth)) return alternatives;
    }
  }

  // A bar and what may stand around it, newlines too.
  bool SkipBar(int depth) {
    const size_t at = at_, line_begin = line_begin_;
    const uint32_t line = line_;
    if (depth == 0) SkipSpace(true);
    if (Now() == '|') {
      ++at_;
      SkipSpace(true);
      return true;
    }
    at_ = at;
    line_ = line;
    line_begin_ = line_begin;
    return false;
  }

  Result<Sequence> ReadSequence(int depth) {
    Sequence sequence;
    while (true) {
      const char c = Now();
      GrammarItem item{};
      item.line = line_;
      item.column = Column();
      if (c == '"') {
        MOONLIT_RETURN_IF_ERROR(ReadLiteral(&item));
      } else if (c == '[' || c == '.') {
        MOONLIT_RETURN_IF_ERROR(ReadClass(&item));
      } else if (c == '(') {
        ++at_;
        SkipSpace(true);
        item.kind = GrammarItem::Kind::kGroup;
        MOONLIT_ASSIGN_OR_RETURN(item.alternatives, ReadAlternatives(depth + 1));
        if (Now() != ')') return Fault("expected )");
        ++at_;
      } else if (IsNameCharacter(c)) {
        item.kind = GrammarItem::Kind::kRule;
        MOONLIT_ASSIGN_OR_RETURN(item.index, ReadName());
      } else {
        return sequence;
      }
      SkipSpace(depth > 0);
      MOONLIT_RETURN_IF_ERROR(ReadRepetitions(depth, &sequence, std::move(item)));
    }
  }

  Status ReadRepetitions(int depth, Sequence* sequence, GrammarItem item) {
    bool repeated = false;
    while (true) {
      uint32_t least = 1, most = 1;
      const char c = Now();
      if (c == '*' || c == '+' || c == '?') {
        ++at_;
        least = c == '+' ? 1 : 0;
        most = c == '?' ? 1 : kNoLimit;
      } else if (c == '{') {
        MOONLIT_RETURN_IF_ERROR(ReadBounds(&least, &most));
      } else {
        break;
      }
      // "a*?" repeats what is repeated: a group of it.
      if (repeated) {
        GrammarItem group{};
        group.kind = GrammarItem::Kind::kGroup;
        group.line = item.line;
        group.column = item.column;
        group.alternatives.emplace_back().push_back(std::move(item));
        item = std::move(group);
        if (++repeats_ > kMostGrammarDepth) return Fault("repetitions are nested too deeply", Code::kExhausted);
      }
      repeated = true;
      item.least = least;
      item.most = most;
      SkipSpace(depth > 0);
    }
    repeats_ = 0;
    sequence->push_back(std::move(item));
    return Status();
  }

  Result<uint32_t> ReadCount() {
    if (Now() < '0' || Now() > '9') return Fault("expected a number");
    uint32_t value = 0;
    for (; Now() >= '0' && Now() <= '9'; ++at_) {
      value = value * 10 + static_cast<uint32_t>(Now() - '0');
      if (value > kMostRepetitions) return Fault("the number of repetitions is too large", Code::kExhausted);
    }
    SkipSpace(false);
    return value;
  }

  Status ReadBounds(uint32_t* least, uint32_t* most) {
    ++at_;
    SkipSpace(false);
    *least = 0;
    if (Now() != ',') {
      MOONLIT_ASSIGN_OR_RETURN(*least, ReadCount());
    }
    *most = *least;
    if (Now() == ',') {
      ++at_;
      SkipSpace(false);
      *most = kNoLimit;
      if (Now() != '}') {
        MOONLIT_ASSIGN_OR_RETURN(*most, ReadCount());
      }
    }
    if (Now() != '}') return Fault("expected }");
    ++at_;
    if (*least > *most) return Fault("more repetitions at least than at most");
    return Status();
  }

  // One character of a literal or class, escapes read; *raw: its UTF-8.
  Result<char32_t> ReadCharacter(std::string* raw) {
    raw->clear();
    if (Now() != '\\') {
      const size_t n = Utf8CharLength(text_.substr(at_));
      if (n == 0) return Fault("expected UTF-8");
      const char32_t code = Utf8Decode(text_.substr(at_), n);
      raw->assign(text_.substr(at_, n));
      if (code == '\n') {
        ++line_;
        line_begin_ = at_ + 1;
      }
      at_ += n;
      return code;
    }
    ++at_;
    const char c = Now();
    static constexpr std::string_view kNames = "nrt\\\"[]-^'", kMeanings = "\n\r\t\\\"[]-^'";
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    char32_t code = 0;
    if (digits == 0) {
      const size_t name = at_ < text_.size() ? kNames.find(c) : std::string_view::npos;
      if (name == std::string_view::npos)
        return Fault("expected one of n r t \\ \" [ ] - ^ ' x u U behind the backslash");
      code = static_cast<unsigned char>(kMeanings[name]);
      ++at_;
    } else {
      ++at_;
      for (size_t i = 0; i < digits; ++i, ++at_) {
        const char lower = static_cast<char>(Now() | 0x20);
        const bool digit = Now() >= '0' && Now() <= '9';
        if (!digit && !(lower >= 'a' && lower <= 'f')) return Fault("expected a hexadecimal digit");
        code = code << 4 | static_cast<char32_t>(digit ? Now() - '0' : lower - 'a' + 10);
      }
      if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return Fault("expected a character's number");
    }
    Utf8Append(code, raw);
    return code;
  }

  Status ReadLiteral(GrammarItem* item) {
    ++at_;
    item->kind = GrammarItem::Kind::kBytes;
    std::string raw;
    while (Now() != '"') {
      if (at_ >= text_.size()) return Fault("expected \" at the end of a literal");
      MOONLIT_RETURN_IF_ERROR(ReadCharacter(&raw).status());
      item->bytes += raw;
    }
    ++at_;
    return Status();
  }

  Status ReadClass(GrammarItem* item) {
    item->kind = GrammarItem::Kind::kClass;
    const size_t begin = at_;
    CharacterRanges ranges;
    bool negated = true;
    if (Now() == '.') {
      ++at_;
    } else {
      ++at_;
      negated = Now() == '^';
      if (negated) ++at_;
      std::string raw;
      while (Now() != ']') {
        if (at_ >= text_.size()) return Fault("expected ] at the end of a class");
        MOONLIT_ASSIGN_OR_RETURN(const char32_t first, ReadCharacter(&raw));
        char32_t last = first;
        if (Now() == '-' && text_.substr(at_ + 1, 1) != "]" && at_ + 1 < text_.size()) {
          ++at_;
          MOONLIT_ASSIGN_OR_RETURN(last, ReadCharacter(&raw));
          if (last < first) return Fault("a range ends before it begins");
        }
        if (ranges.size() >= kMostRanges) return Fault("too many ranges in a class", Code::kExhausted);
        ranges.emplace_back(first, last);
      }
      ++at_;
    }
    // By its text first: most grammars write a class as they did before.
    const std::string_view written = text_.substr(begin, at_ - begin);
    if (const auto known = written_classes_.find(written); known != written_classes_.end()) {
      item->index = known->second;
      return Status();
    }
    MOONLIT_ASSIGN_OR_RETURN(item->index, FindOrAddClass(NormalizeRanges(std::move(ranges), negated)));
    written_classes_.emplace(written, item->index);
    return Status();
  }

  Result<uint32_t> FindOrAddClass(CharacterRanges ranges) {
    if (ranges.empty()) return Fault("a class without characters");
    const auto [found, added] = classes_.emplace(std::move(ranges), static_cast<uint32_t>(syntax_.classes.size()));
    if (added) {
      syntax_.classes.emplace_back(found->first);
      class_states_ += syntax_.classes.back().states();
      if (class_states_ > kMostClassStates) return Fault("too many different classes", Code::kExhausted);
    }
    return found->second;
  }

  static constexpr size_t kMostRanges = 4096;
  static constexpr size_t kMostClassStates = 32768;  // 16 MiB

  const std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  size_t line_begin_ = 0;
  int repeats_ = 0;
  size_t class_states_ = 0;
  GrammarSyntax syntax_;
  std::unordered_map<std::string, uint32_t> names_;
  std::map<std::string_view, uint32_t>
      written_classes_;  // these two to the classes' indices; trees, as texts are untrusted
  std::map<CharacterRanges, uint32_t> classes_;
};

}  // namespace

Result<GrammarSyntax> ParseGrammar(std::string_view text) { return GrammarParser(text).Run(); }

}  // namespace moonlit
