// SPDX-License-Identifier: Apache-2.0
// Texts cut, searched and changed, by characters as Python counts them. Every byte keeps its mark.
#include <utf8proc.h>

#include <algorithm>

#include "runtime/text/jinja_functions.h"
#include "runtime/text/utf8.h"

namespace moonlit::jinja {
namespace {

// Python's str.isspace() among ASCII, and the no-break and ideographic spaces.
bool IsSpace(std::string_view character) {
  static constexpr std::string_view kAscii = " \t\n\r\f\v\x1c\x1d\x1e\x1f";
  if (character.size() == 1) return kAscii.find(character[0]) != std::string_view::npos;
  return character == "\xC2\xA0" || character == "\xE3\x80\x80" || character == "\xC2\x85" ||
         (character.size() == 3 && character >= "\xE2\x80\x80" && character <= "\xE2\x80\x8A") ||
         character == "\xE2\x80\xA8" || character == "\xE2\x80\xA9" || character == "\xE2\x80\xAF";
}

// The last character of text[0, end), which is not empty.
std::string_view LastCharacter(std::string_view text) {
  for (size_t n = 1; n <= 4 && n <= text.size(); ++n) {
    const std::string_view tail = text.substr(text.size() - n);
    if (Utf8CharLength(tail) == n) return tail;
  }
  return text.substr(text.size() - 1);
}

std::string ChangeCharacter(std::string_view character, bool upper) {
  const size_t n = Utf8CharLength(character);
  if (n == 0) return std::string(character);
  const auto code = static_cast<utf8proc_int32_t>(Utf8Decode(character, n));
  std::string out;
  Utf8Append(static_cast<char32_t>(upper ? utf8proc_toupper(code) : utf8proc_tolower(code)), &out);
  return out;
}

bool IsLetter(std::string_view character) {
  const size_t n = Utf8CharLength(character);
  if (n == 0) return false;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(Utf8Decode(character, n)));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

}  // namespace

size_t CharacterBytes(std::string_view text) { return std::max<size_t>(Utf8CharLength(text), text.empty() ? 0 : 1); }

size_t CountCharacters(Machine& machine, std::string_view text) {
  machine.Walk(text.size());
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(CharacterBytes(text));
  return count;
}

size_t CharacterOffset(std::string_view text, size_t index) {
  size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) offset += CharacterBytes(text.substr(offset));
  return offset;
}

const Text& RequireText(const Value& value, const char* what) {
  if (value.text() == nullptr) Fail(Code::kInvalidArgument, "%s: expected a string, found %s", what, KindName(value));
  return *value.text();
}

void PayForSearch(Machine& machine, size_t n, size_t m) {
  machine.Walk(n);
  machine.Step(static_cast<uint64_t>(n) * m / 64);
}

void PayForCompare(Machine& machine, const Value& a, const Value& b) {
  const bool alike = (a.text() != nullptr && b.text() != nullptr) || (a.list() != nullptr && b.list() != nullptr) ||
                     (a.dict() != nullptr && b.dict() != nullptr);
  machine.Step(alike ? std::min(ExtentOf(a).work, ExtentOf(b).work) : 1);
}

void PayForFind(Machine& machine, const Dict& dict, const Value& key) {
  machine.PayForNames(dict.entries.size(), key.text() != nullptr ? key.text()->size() : 0);
}

Text WithCase(Machine& machine, const Text& text, Case wanted) {
  machine.Step(text.size());
  machine.Charge(text.size());
  static constexpr std::string_view kSeparators = "-({[<";  // and white space: jinja2.filters.do_title
  Text out;
  const std::string_view bytes = text.bytes();
  bool after_letter = false, after_separator = true;
  for (size_t i = 0; i < bytes.size();) {
    const std::string_view character = bytes.substr(i, CharacterBytes(bytes.substr(i)));
    const bool upper = wanted == Case::kUpper || (wanted == Case::kCapitalize && i == 0) ||
                       (wanted == Case::kTitle && !after_letter) || (wanted == Case::kWords && after_separator);
    out.Append(ChangeCharacter(character, upper), text.FromData(i));
    after_letter = IsLetter(character);
    after_separator =
        IsSpace(character) || (character.size() == 1 && kSeparators.find(character[0]) != std::string_view::npos);
    i += character.size();
  }
  return out;
}

Text Strip(Machine& machine, const Text& text, std::string_view characters, bool left, bool right) {
  PayForSearch(machine, text.size(), characters.size());
  const auto stripped = [&](std::string_view character) {
    return characters.empty() ? IsSpace(character) : characters.find(character) != std::string_view::npos;
  };
  const std::string_view bytes = text.bytes();
  size_t begin = 0, end = bytes.size();
  while (left && begin < end) {
    const size_t n = CharacterBytes(bytes.substr(begin, end - begin));
    if (!stripped(bytes.substr(begin, n))) break;
    begin += n;
  }
  while (right && begin < end) {
    const std::string_view last = LastCharacter(bytes.substr(begin, end - begin));
    if (!stripped(last)) break;
    end -= last.size();
  }
  return text.Cut(begin, end - begin);
}

Text Replace(Machine& machine, const Text& text, std::string_view old, const Text& with, int64_t most) {
  PayForSearch(machine, text.size(), old.size());
  Text out;
  size_t at = 0;
  if (old.empty()) Fail(Code::kUnsupported, "replace: nothing is to be replaced by something");
  for (int64_t done = 0; most < 0 || done < most; ++done) {
    const size_t found = text.bytes().find(old, at);
    if (found == std::string::npos) break;
    machine.Pay(found - at + with.size());
    out.Append(text, at, found - at);
    out.Append(with);
    at = found + old.size();
  }
  machine.Pay(text.size() - at);
  out.Append(text, at, std::string::npos);
  return out;
}

}  // namespace moonlit::jinja
