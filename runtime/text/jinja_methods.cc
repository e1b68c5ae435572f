// SPDX-License-Identifier: Apache-2.0
// Methods of strings and dicts (Python, "Built-in Types").
#include <algorithm>
#include <iterator>
#include <limits>

#include "runtime/text/jinja_functions.h"

namespace moonlit::jinja {
namespace {

using Method = Value (*)(Machine&, const Value& self, const Arguments&);

struct Entry {
  std::string_view name;
  Method method;
};

std::string OptionalText(const Value& value, const char* what) {
  return value.IsUndefined() || value.IsNone() ? std::string() : RequireText(value, what).bytes();
}

template <bool kLeft, bool kRight>
Value StripMethod(Machine& machine, const Value& self, const Arguments& arguments) {
  const std::string characters = OptionalText(arguments.Bind("strip", {"chars"})[0], "strip");
  return machine.NewText(Strip(machine, *self.text(), characters, kLeft, kRight));
}

template <Case kCase>
Value CaseMethod(Machine& machine, const Value& self, const Arguments& arguments) {
  arguments.Bind("a change of case", {});
  return machine.NewText(WithCase(machine, *self.text(), kCase));
}

// By runs of white space, of which those at the ends count for nothing.
std::vector<Value> SplitAtSpace(Machine& machine, const Text& text, int64_t most) {
  std::vector<Value> parts;
  Text rest = Strip(machine, text, "", true, true);
  size_t at = 0;
  while (at < rest.size()) {
    static constexpr std::string_view kSpace = " \t\n\r\f\v";
    const bool last = most >= 0 && static_cast<int64_t>(parts.size()) == most;
    const size_t end = last ? std::string::npos : rest.bytes().find_first_of(kSpace, at);
    parts.push_back(machine.NewText(rest.Cut(at, end == std::string::npos ? end : end - at)));
    if (end == std::string::npos) break;
    at = rest.bytes().find_first_not_of(kSpace, end);
  }
  return parts;
}

template <bool kFromEnd>
Value SplitMethod(Machine& machine, const Value& self, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.Bind("split", {"sep", "maxsplit"});
  const Text& text = *self.text();
  const int64_t most = bound[1].IsUndefined() ? -1 : ToIndex(bound[1], "split's maxsplit");
  if (bound[0].IsUndefined() || bound[0].IsNone()) {
    if (kFromEnd && most >= 0) Fail(Code::kUnsupported, "rsplit by white space with a limit");
    machine.Step(text.size());
    return machine.NewList(SplitAtSpace(machine, text, most));
  }
  const std::string& separator = RequireText(bound[0], "split").bytes();
  if (separator.empty()) Fail(Code::kInvalidArgument, "split: the separator is empty");
  PayForSearch(machine, text.size(), separator.size());
  std::vector<Value> parts;
  size_t begin = 0, end = text.size();
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    if (kFromEnd && end < separator.size()) break;
    const size_t found =
        kFromEnd ? text.bytes().rfind(separator, end - separator.size()) : text.bytes().find(separator, begin);
    if (found == std::string::npos) break;
    const size_t cut = found + separator.size();
    parts.push_back(machine.NewText(kFromEnd ? text.Cut(cut, end - cut) : text.Cut(begin, found - begin)));
    if (kFromEnd) {
      end = found;
    } else {
      begin = cut;
    }
  }
  parts.push_back(machine.NewText(text.Cut(begin, end - begin)));
  if (kFromEnd) std::reverse(parts.begin(), parts.end());
  return machine.NewList(std::move(parts));
}

Value SplitLines(Machine& machine, const Value& self, const Arguments& arguments) {
  arguments.Bind("splitlines", {});
  const Text& text = *self.text();
  std::vector<Value> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.bytes().find_first_of("\n\r", at), text.size());
    lines.push_back(machine.NewText(text.Cut(at, end - at)));
    at = text.bytes().compare(end, 2, "\r\n") == 0 ? end + 2 : end + 1;
  }
  return machine.NewList(std::move(lines));
}

// startswith and endswith: of one string, or of any in a list.
template <bool kEnd>
Value AffixMethod(Machine& machine, const Value& self, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.Bind(kEnd ? "endswith" : "startswith", {"affix"});
  const std::string_view text = self.text()->bytes();
  const auto fits = [&](const Value& affix) {
    const std::string_view bytes = RequireText(affix, "startswith or endswith").bytes();
    machine.Step(1 + bytes.size() / 64);
    return kEnd ? text.ends_with(bytes) : text.starts_with(bytes);
  };
  if (const List* list = bound[0].list()) return Value(std::any_of(list->items.begin(), list->items.end(), fits));
  return Value(fits(bound[0]));
}

template <bool kEnd>
Value RemoveAffix(Machine& machine, const Value& self, const Arguments& arguments) {
  const Text& text = *self.text();
  const std::vector<Value> bound = arguments.Bind(kEnd ? "removesuffix" : "removeprefix", {"affix"});
  const std::string& affix = RequireText(bound[0], "removeprefix or removesuffix").bytes();
  const std::string_view bytes = text.bytes();
  machine.Step(1 + affix.size() / 64);
  if (affix.empty() || !(kEnd ? bytes.ends_with(affix) : bytes.starts_with(affix))) return self;
  return machine.NewText(text.Cut(kEnd ? 0 : affix.size(), text.size() - affix.size()));
}

Value ReplaceMethod(Machine& machine, const Value& self, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.Bind("replace", {"old", "new", "count"});
  const int64_t most = bound[2].IsUndefined() ? -1 : ToIndex(bound[2], "replace's count");
  return Value::OfText(
      Replace(machine, *self.text(), RequireText(bound[0], "replace").bytes(), RequireText(bound[1], "replace"), most));
}

template <bool kFromEnd>
Value FindIn(Machine& machine, const Value& self, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.Bind("find", {"sub"});
  const std::string &text = self.text()->bytes(), &wanted = RequireText(bound[0], "find").bytes();
  PayForSearch(machine, text.size(), wanted.size());
  const size_t found = kFromEnd ? text.rfind(wanted) : text.find(wanted);
  if (found == std::string::npos) return Value(int64_t{-1});
  return Value(static_cast<int64_t>(CountCharacters(machine, std::string_view(text).substr(0, found))));
}

Value CountMethod(Machine& machine, const Value& self, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.Bind("count", {"sub"});
  const std::string &text = self.text()->bytes(), &wanted = RequireText(bound[0], "count").bytes();
  PayForSearch(machine, text.size(), wanted.size());
  if (wanted.empty()) return Value(static_cast<int64_t>(CountCharacters(machine, text)) + 1);
  int64_t count = 0;
  for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + wanted.size())) ++count;
  return Value(count);
}

Value JoinMethod(Machine& machine, const Value& self, const Arguments& arguments) {
  Text out;
  bool first = true;
  for (const Value& item : machine.Items(arguments.Bind("join", {"items"})[0])) {
    if (!first) out.Append(*self.text());
    first = false;
    machine.Pay(self.text()->size());
    out.Append(RequireText(item, "join"));
    machine.Pay(item.text()->size());
  }
  return Value::OfText(std::move(out));
}

Value IsDigits(Machine& machine, const Value& self, const Arguments& arguments) {
  arguments.Bind("isdigit", {});
  const std::string& text = self.text()->bytes();
  machine.Step(1 + text.size() / 64);
  return Value(!text.empty() && text.find_first_not_of("0123456789") == std::string::npos);
}

constexpr Entry kTextMethods[] = {
    {"strip", StripMethod<true, true>},
    {"lstrip", StripMethod<true, false>},
    {"rstrip", StripMethod<false, true>},
    {"upper", CaseMethod<Case::kUpper>},
    {"lower", CaseMethod<Case::kLower>},
    {"title", CaseMethod<Case::kTitle>},
    {"capitalize", CaseMethod<Case::kCapitalize>},
    {"split", SplitMethod<false>},
    {"rsplit", SplitMethod<true>},
    {"splitlines", SplitLines},
    {"startswith", AffixMethod<false>},
    {"endswith", AffixMethod<true>},
    {"removeprefix", RemoveAffix<false>},
    {"removesuffix", RemoveAffix<true>},
    {"replace", ReplaceMethod},
    {"find", FindIn<false>},
    {"rfind", FindIn<true>},
    {"count", CountMethod},
    {"join", JoinMethod},
    {"isdigit", IsDigits},
};

Value GetMethod(Machine& machine, const Value& self, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.Bind("get", {"key", "default"});
  PayForFind(machine, *self.dict(), bound[0]);
  const Value* found = self.dict()->Find(bound[0]);
  if (found != nullptr) return *found;
  return bound[1].IsUndefined() ? Value(None{}) : bound[1];
}

enum class Part { kKeys, kValues, kItems };
template <Part kPart>
Value PartMethod(Machine& machine, const Value& self, const Arguments& arguments) {
  arguments.Bind("keys, values or items", {});
  std::vector<Value> parts;
  for (const auto& [key, value] : self.dict()->entries) {
    parts.push_back(kPart == Part::kKeys ? key : kPart == Part::kValues ? value : machine.NewList({key, value}));
  }
  return machine.NewList(std::move(parts));
}

constexpr Entry kDictMethods[] = {
    {"get", GetMethod},
    {"keys", PartMethod<Part::kKeys>},
    {"values", PartMethod<Part::kValues>},
    {"items", PartMethod<Part::kItems>},
};

Value Bound(const Entry& entry, const Value& self) {
  auto callable = std::make_shared<Callable>();
  callable->name = entry.name;
  callable->call = [method = entry.method, self](Machine& machine, const Arguments& arguments) {
    return method(machine, self, arguments);
  };
  return Value(std::shared_ptr<const Callable>(std::move(callable)));
}

}  // namespace

Value FindMethod(const Value& object, const std::string& name) {
  if (object.text() != nullptr) {
    for (const Entry& entry : kTextMethods) {
      if (entry.name == name) return Bound(entry, object);
    }
  } else if (object.dict() != nullptr) {
    for (const Entry& entry : kDictMethods) {
      if (entry.name == name) return Bound(entry, object);
    }
  }
  return Value();
}

}  // namespace moonlit::jinja
