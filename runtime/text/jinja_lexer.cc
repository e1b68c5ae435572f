// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja_lexer.h"

#include <algorithm>

#include "runtime/text/jinja_value.h"
#include "runtime/text/utf8.h"

namespace moonlit::jinja {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";

bool IsSpace(char c) { return kSpace.find(c) != std::string_view::npos; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

std::string WithPlainNewlines(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(WithPlainNewlines(source)) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) LexOutside();
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void FailAt(uint32_t line, const char* what) { Fail(Code::kCorrupt, "line %u: %s", line, what); }
  void Add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  bool StartsWith(std::string_view word) const { return source_.compare(at_, word.size(), word) == 0; }

  void Advance(size_t count) {
    line_ += static_cast<uint32_t>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                              source_.begin() + static_cast<std::ptrdiff_t>(at_ + count), '\n'));
    at_ += count;
  }

  size_t FindTag() const {
    for (size_t tag = source_.find('{', at_); tag != std::string::npos; tag = source_.find('{', tag + 1)) {
      if (tag + 1 < source_.size() && std::string_view("{%#").find(source_[tag + 1]) != std::string_view::npos)
        return tag;
    }
    return std::string::npos;
  }

  // Text up to the next tag, and the tag.
  void LexOutside() {
    const size_t tag = FindTag();
    if (tag == std::string::npos) {
      Add(TokenKind::kText, source_.substr(at_));
      at_ = source_.size();
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    std::string text = source_.substr(at_, tag - at_);
    if (sign == '-') {
      text.resize(text.find_last_not_of(kSpace) + 1);
    } else if (sign != '+' && kind != '{') {
      DropIndent(&text);
    }
    if (!text.empty()) Add(TokenKind::kText, std::move(text));
    Advance(tag - at_);
    Advance(sign == '-' || sign == '+' ? 3 : 2);
    starts_line_ = false;
    if (kind == '#') return SkipComment();
    Add(kind == '{' ? TokenKind::kOutputBegin : TokenKind::kBlockBegin, "");
    LexInside(kind == '{' ? "}}" : "%}");
  }

  // lstrip_blocks: white space alone on its line before a block is no part of the text.
  void DropIndent(std::string* text) const {
    const size_t newline = text->rfind('\n');
    if (newline == std::string::npos && !starts_line_) return;
    const size_t begin = newline == std::string::npos ? 0 : newline + 1;
    if (text->find_first_not_of(kSpace, begin) == std::string::npos) text->resize(begin);
  }

  // What follows a closed tag: "-" takes all white space, a block or comment one newline unless "+" keeps it.
  void Close(char sign, bool trims) {
    size_t end = at_;
    if (sign == '-') {
      while (end < source_.size() && IsSpace(source_[end])) ++end;
    } else if (trims && sign != '+' && end < source_.size() && source_[end] == '\n') {
      ++end;
    }
    starts_line_ = end > at_ && source_[end - 1] == '\n';
    Advance(end - at_);
  }

  void SkipComment() {
    const uint32_t begin = line_;
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) FailAt(begin, "a comment does not end: expected #}");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    Advance(end + 2 - at_);
    Close(sign, true);
  }

  void LexInside(std::string_view closing) {
    const uint32_t begin = line_;
    size_t open = 0;
    while (true) {
      while (at_ < source_.size() && IsSpace(source_[at_])) Advance(1);
      if (at_ >= source_.size()) FailAt(begin, "a tag does not end");
      if (open == 0) {
        const bool block = closing == "%}";
        const char sign = source_[at_] == '-' || (block && source_[at_] == '+') ? source_[at_] : ' ';
        if (source_.compare(at_ + (sign == ' ' ? 0 : 1), 2, closing) == 0) {
          Add(block ? TokenKind::kBlockEnd : TokenKind::kOutputEnd, "");
          Advance(sign == ' ' ? 2 : 3);
          return Close(sign, block);
        }
      }
      LexWord(&open);
    }
  }

  void LexWord(size_t* open) {
    const char c = source_[at_];
    if (c == '"' || c == '\'') return LexString(c);
    if (IsDigit(c)) return LexNumber();
    size_t end = at_;
    if (IsNameStart(c)) {
      while (end < source_.size() && (IsNameStart(source_[end]) || IsDigit(source_[end]))) ++end;
      Add(TokenKind::kName, source_.substr(at_, end - at_));
      return Advance(end - at_);
    }
    static constexpr std::string_view kOperators[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*",
                                                      "/",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                      "<",  ">",  "=",  ".",  ":",  "|",  ","};
    for (const std::string_view word : kOperators) {
      if (!StartsWith(word)) continue;
      if (c == '(' || c == '[' || c == '{') ++*open;
      if ((c == ')' || c == ']' || c == '}') && (*open)-- == 0)
        FailAt(line_, "a bracket is closed that was not opened");
      Add(TokenKind::kOperator, std::string(word));
      return Advance(word.size());
    }
    FailAt(line_, "a character that begins no word");
  }

  void LexNumber() {
    const auto digits = [&](size_t from) {
      while (from < source_.size() && (IsDigit(source_[from]) || source_[from] == '_')) ++from;
      return from;
    };
    size_t end = digits(at_);
    bool real = false;
    if (end + 1 < source_.size() && source_[end] == '.' && IsDigit(source_[end + 1])) {
      real = true;
      end = digits(end + 1);
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
      if (exponent < source_.size() && IsDigit(source_[exponent])) {
        real = true;
        end = digits(exponent);
      }
    }
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    Add(real ? TokenKind::kFloat : TokenKind::kInteger, std::move(text));
    Advance(end - at_);
  }

  void LexString(char quote) {
    const uint32_t begin = line_;
    std::string value;
    size_t i = at_ + 1;
    while (true) {
      if (i >= source_.size()) FailAt(begin, "a string does not end");
      const char c = source_[i++];
      if (c == quote) break;
      if (c != '\\') {
        value += c;
        continue;
      }
      if (i >= source_.size()) FailAt(begin, "a string does not end");
      i = ReadEscape(i, &value);
    }
    tokens_.push_back({TokenKind::kString, std::move(value), begin});
    Advance(i - at_);
  }

  // `i`: behind the backslash. Python's escapes; an unknown one stays as it is.
  size_t ReadEscape(size_t i, std::string* value) {
    static constexpr std::string_view kNames = "ntr0bfav\\'\"", kMeanings("\n\t\r\0\b\f\a\v\\'\"", 11);
    const char c = source_[i++];
    if (c == '\n') return i;
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) {
      char32_t code = 0;
      for (size_t k = 0; k < digits; ++k, ++i) {
        const size_t digit = i < source_.size() ? std::string_view("0123456789abcdef").find(source_[i] | 0x20) : 16;
        if (digit >= 16) FailAt(line_, "an escape in a string has too few hexadecimal digits");
        code = code << 4 | static_cast<char32_t>(digit);
      }
      if (code > 0x10FFFF) FailAt(line_, "an escape in a string names no character");
      Utf8Append(code, value);
      return i;
    }
    const size_t name = kNames.find(c);
    if (name == std::string_view::npos) {
      *value += '\\';
      *value += c;
    } else {
      *value += kMeanings[name];
    }
    return i;
  }

  const std::string source_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool starts_line_ = true;  // nothing of the current line stands before at_
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Lex(std::string_view source) { return Lexer(source).Run(); }

}  // namespace moonlit::jinja
