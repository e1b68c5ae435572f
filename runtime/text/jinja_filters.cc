// SPDX-License-Identifier: Apache-2.0
// Filters (Jinja, "List of Builtin Filters"), tojson as transformers has it: no escapes for HTML, other than ASCII as it is.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/text/jinja_functions.h"

namespace moonlit::jinja {
namespace {

using Filter = Value (*)(Machine&, const Value& input, const Arguments&);

constexpr int64_t kMostIndent = 32;

Value Trim(Machine& machine, const Value& input, const Arguments& arguments) {
  const Value characters = arguments.Bind("trim", {"chars"})[0];
  const Text text = ToText(input);
  const std::string set = characters.text() != nullptr ? characters.text()->bytes() : "";
  return machine.NewText(Strip(machine, text, set, true, true));
}

Value Length(Machine& machine, const Value& input, const Arguments& arguments) {
  arguments.Bind("length", {});
  size_t count = 0;
  if (const Text* text = input.text()) {
    count = CountCharacters(machine, text->bytes());
  } else if (const List* list = input.list()) {
    count = list->items.size();
  } else if (const Dict* dict = input.dict()) {
    count = dict->entries.size();
  } else if (!input.IsUndefined()) {
    Fail(Code::kInvalidArgument, "%s has no length", KindName(input));
  }
  return Value(static_cast<int64_t>(count));
}

template <Case kCase>
Value ChangeCase(Machine& machine, const Value& input, const Arguments& arguments) {
  arguments.Bind("a change of case", {});
  const Text text = ToText(input);
  return machine.NewText(WithCase(machine, text, kCase));
}

// An attribute of an item, "a.b" of an attribute's.
Value Attribute(Machine& machine, const Value& item, std::string_view path) {
  const size_t dot = path.find('.');
  const Dict* dict = item.dict();
  machine.PayForNames(1 + (dict != nullptr ? dict->entries.size() : 0), path.size());
  const Value* found = dict != nullptr ? dict->Find(path.substr(0, dot)) : nullptr;
  if (found == nullptr) return Value();
  return dot == std::string_view::npos ? *found : Attribute(machine, *found, path.substr(dot + 1));
}

Value JoinItems(Machine& machine, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.Bind("join", {"d", "attribute"});
  const Text separator = bound[0].IsUndefined() ? Text() : ToText(bound[0]);
  Text out;
  bool first = true;
  for (const Value& item : machine.Items(input)) {
    if (!first) out.Append(separator);
    first = false;
    const Text text =
        ToText(bound[1].IsUndefined() ? item : Attribute(machine, item, RequireText(bound[1], "join").bytes()));
    machine.Pay(separator.size() + text.size());
    out.Append(text);
  }
  return Value::OfText(std::move(out));
}

Value Json(Machine& machine, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.Bind("tojson", {"indent", "ensure_ascii", "separators", "sort_keys"});
  JsonStyle style;
  if (!bound[0].IsUndefined() && !bound[0].IsNone())
    style.indent = static_cast<int>(std::clamp<int64_t>(ToIndex(bound[0], "tojson's indent"), 0, kMostIndent));
  if (Truth(bound[1])) Fail(Code::kUnsupported, "tojson with ensure_ascii");
  if (const List* pair = bound[2].list(); pair != nullptr && pair->items.size() == 2) {
    style.item_separator = RequireText(pair->items[0], "tojson's separators").bytes();
    style.key_separator = RequireText(pair->items[1], "tojson's separators").bytes();
  }
  style.sort_keys = Truth(bound[3]);
  const uint64_t weight = input.list() != nullptr   ? input.list()->extent.weight
                          : input.dict() != nullptr ? input.dict()->extent.weight
                                                    : 1;
  machine.Pay(weight * (style.indent < 0 ? 1 : 16));
  return machine.NewText(Text(ToJson(input, style), true));
}

Value ToString(Machine& machine, const Value& input, const Arguments& arguments) {
  arguments.Bind("string", {});
  return input.text() != nullptr ? input : machine.NewText(ToText(input));
}

Value ToInteger(Machine& machine, const Value& input, const Arguments& arguments) {
  const Value otherwise = arguments.Bind("int", {"default"})[0];
  if (input.IsInteger()) return Value(input.AsInteger());
  if (input.IsNumber() && std::fabs(input.AsDouble()) < 9e18) return Value(static_cast<int64_t>(input.AsDouble()));
  if (input.text() != nullptr) {
    const Text text = Strip(machine, *input.text(), "", true, true);
    int64_t value = 0;
    const char* const end = text.bytes().data() + text.size();
    const auto read = std::from_chars(text.bytes().data(), end, value);
    if (read.ec == std::errc() && read.ptr == end) return Value(value);
  }
  return otherwise.IsUndefined() ? Value(int64_t{0}) : otherwise;
}

Value ToFloat(Machine& machine, const Value& input, const Arguments& arguments) {
  const Value otherwise = arguments.Bind("float", {"default"})[0];
  if (input.IsNumber()) return Value(input.AsDouble());
  if (input.text() != nullptr) {
    const Text text = Strip(machine, *input.text(), "", true, true);
    double value = 0;
    const char* const end = text.bytes().data() + text.size();
    const auto read = std::from_chars(text.bytes().data(), end, value);
    if (read.ec == std::errc() && read.ptr == end) return Value(value);
  }
  return otherwise.IsUndefined() ? Value(0.0) : otherwise;
}

Value ToList(Machine& machine, const Value& input, const Arguments& arguments) {
  arguments.Bind("list", {});
  return machine.NewList(machine.Items(input));
}

template <bool kLast>
Value EndItem(Machine& machine, const Value& input, const Arguments& arguments) {
  arguments.Bind("first or last", {});
  const std::vector<Value> items = machine.Items(input);
  return items.empty() ? Value() : kLast ? items.back() : items.front();
}

Value Default(Machine&, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.Bind("default", {"default_value", "boolean"});
  if (!(input.IsUndefined() || (Truth(bound[1]) && !Truth(input)))) return input;
  return bound[0].IsUndefined() ? Value::OfWord("") : bound[0];
}

Value ReplaceText(Machine& machine, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.Bind("replace", {"old", "new", "count"});
  const int64_t most = bound[2].IsUndefined() || bound[2].IsNone() ? -1 : ToIndex(bound[2], "replace's count");
  return Value::OfText(Replace(machine, ToText(input), RequireText(bound[0], "replace").bytes(),
                               RequireText(bound[1], "replace"), most));
}

Value ItemPairs(Machine& machine, const Value& input, const Arguments& arguments) {
  arguments.Bind("items", {});
  std::vector<Value> pairs;
  if (input.IsUndefined()) return machine.NewList({});
  if (input.dict() == nullptr) Fail(Code::kInvalidArgument, "items: expected a dict, found %s", KindName(input));
  for (const auto& [key, value] : input.dict()->entries) pairs.push_back(machine.NewList({key, value}));
  return machine.NewList(std::move(pairs));
}

bool PaidLess(Machine& machine, const Value& a, const Value& b) {
  PayForCompare(machine, a, b);
  return Less(a, b);
}

// What Jinja compares by where case does not matter.
Value Folded(Machine& machine, const Value& value, bool case_sensitive) {
  if (value.text() == nullptr || case_sensitive) return value;
  return Value::OfText(WithCase(machine, *value.text(), Case::kLower));
}

Value SortDict(Machine& machine, const Value& input, const Arguments& arguments) {
  const Value pairs = ItemPairs(machine, input, Arguments());
  const std::vector<Value> bound = arguments.Bind("dictsort", {"case_sensitive", "by", "reverse"});
  if (!bound[1].IsUndefined() || !bound[2].IsUndefined()) Fail(Code::kUnsupported, "dictsort with by or reverse");
  machine.Step(pairs.list()->items.size() * 20);
  std::vector<std::pair<Value, Value>> keyed;  // and the pair
  for (const Value& pair : pairs.list()->items)
    keyed.emplace_back(Folded(machine, pair.list()->items[0], Truth(bound[0])), pair);
  std::stable_sort(keyed.begin(), keyed.end(),
                   [&](const auto& a, const auto& b) { return PaidLess(machine, a.first, b.first); });
  std::vector<Value> sorted;
  for (auto& [key, pair] : keyed) sorted.push_back(std::move(pair));
  return machine.NewList(std::move(sorted));
}

Value SortItems(Machine& machine, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.Bind("sort", {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> items = machine.Items(input);
  const std::string path = bound[2].text() != nullptr ? bound[2].text()->bytes() : "";
  machine.Step(items.size() * 20);
  std::vector<std::pair<Value, Value>> keyed;  // and the item
  for (Value& item : items) {
    const Value key = path.empty() ? item : Attribute(machine, item, path);
    keyed.emplace_back(Folded(machine, key, Truth(bound[1])), std::move(item));
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return Truth(bound[0]) ? PaidLess(machine, b.first, a.first) : PaidLess(machine, a.first, b.first);
  });
  for (size_t i = 0; i < items.size(); ++i) items[i] = std::move(keyed[i].second);
  return machine.NewList(std::move(items));
}

Value Map(Machine& machine, const Value& input, const Arguments& arguments) {
  std::vector<Value> out;
  const std::vector<Value> items = machine.Items(input);
  if (arguments.positional.empty()) {
    const std::vector<Value> bound = arguments.Bind("map", {"attribute", "default"});
    const std::string& path = RequireText(bound[0], "map's attribute").bytes();
    for (const Value& item : items) {
      Value value = Attribute(machine, item, path);
      out.push_back(value.IsUndefined() ? bound[1] : std::move(value));
    }
    return machine.NewList(std::move(out));
  }
  const std::string filter = RequireText(arguments.positional[0], "map").bytes();
  const Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
  for (const Value& item : items) out.push_back(ApplyFilter(machine, filter, item, rest));
  return machine.NewList(std::move(out));
}

// select, reject: by a test of the item; selectattr, rejectattr: of its attribute. Without a test: by its truth.
template <bool kKeep, bool kAttribute>
Value Select(Machine& machine, const Value& input, const Arguments& arguments) {
  constexpr size_t kTest = kAttribute ? 1 : 0;
  const std::vector<Value>& given = arguments.positional;
  if (kAttribute && given.empty()) Fail(Code::kInvalidArgument, "selectattr: which attribute?");
  const std::string path = kAttribute ? RequireText(given[0], "selectattr").bytes() : "";
  const std::string test = given.size() > kTest ? RequireText(given[kTest], "select").bytes() : "";
  Arguments rest;
  if (given.size() > kTest) rest.positional.assign(given.begin() + kTest + 1, given.end());
  std::vector<Value> out;
  for (const Value& item : machine.Items(input)) {
    const Value tested = kAttribute ? Attribute(machine, item, path) : item;
    if ((test.empty() ? Truth(tested) : ApplyTest(machine, test == "==" ? "eq" : test, tested, rest)) == kKeep)
      out.push_back(item);
  }
  return machine.NewList(std::move(out));
}

Value Unique(Machine& machine, const Value& input, const Arguments& arguments) {
  const bool case_sensitive = Truth(arguments.Bind("unique", {"case_sensitive"})[0]);
  std::vector<Value> out, keys;
  for (const Value& item : machine.Items(input)) {
    const Value key = Folded(machine, item, case_sensitive);
    const auto same = [&](const Value& seen) {
      PayForCompare(machine, seen, key);
      return Equal(seen, key);
    };
    if (std::any_of(keys.begin(), keys.end(), same)) continue;
    keys.push_back(key);
    out.push_back(item);
  }
  return machine.NewList(std::move(out));
}

Value Reverse(Machine& machine, const Value& input, const Arguments& arguments) {
  arguments.Bind("reverse", {});
  std::vector<Value> items = machine.Items(input);
  std::reverse(items.begin(), items.end());
  if (input.text() == nullptr) return machine.NewList(std::move(items));
  Text text;
  for (const Value& item : items) text.Append(*item.text());
  return machine.NewText(std::move(text));
}

Value Indent(Machine& machine, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.Bind("indent", {"width", "first", "blank"});
  const int64_t width = bound[0].IsUndefined() ? 4 : std::clamp<int64_t>(ToIndex(bound[0], "indent"), 0, kMostIndent);
  const std::string space(static_cast<size_t>(width), ' ');
  const Text text = ToText(input);
  Text out;
  bool first = true;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.bytes().find('\n', at), text.size());
    const bool wanted = first ? Truth(bound[1]) : end > at || Truth(bound[2]);
    machine.Pay(space.size() + end - at + 1);
    if (wanted) out.Append(space, false);
    out.Append(text, at, end - at + (end < text.size() ? 1 : 0));
    first = false;
    at = end + 1;
  }
  return Value::OfText(std::move(out));
}

Value Escape(Machine& machine, const Value& input, const Arguments& arguments) {
  arguments.Bind("escape", {});
  const Text text = ToText(input);
  machine.Step(text.size());
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    static constexpr std::string_view kPlain = "&<>'\"";
    static constexpr std::string_view kNames[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const size_t name = kPlain.find(text.bytes()[i]);
    out.Append(name == std::string_view::npos ? std::string_view(text.bytes()).substr(i, 1) : kNames[name],
               text.FromData(i));
  }
  return machine.NewText(std::move(out));
}

Value Absolute(Machine& machine, const Value& input, const Arguments& arguments) {
  arguments.Bind("abs", {});
  if (!input.IsNumber()) Fail(Code::kInvalidArgument, "abs: expected a number, found %s", KindName(input));
  if (input.AsDouble() >= 0) return input;
  return BinaryOperation(machine, "-", Value(int64_t{0}), input);
}

Value Round(Machine&, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.Bind("round", {"precision"});
  if (!input.IsNumber()) Fail(Code::kInvalidArgument, "round: expected a number, found %s", KindName(input));
  const auto digits =
      static_cast<double>(bound[0].IsUndefined() ? 0 : std::clamp<int64_t>(ToIndex(bound[0], "round"), -300, 15));
  const double scale = std::pow(10.0, digits);
  const double rounded = std::nearbyint(input.AsDouble() * scale) / scale;
  if (!input.IsInteger()) return Value(rounded);
  if (digits >= 0) return Value(input.AsInteger());
  if (std::fabs(rounded) >= 9e18) Fail(Code::kInvalidArgument, "round: the number is too large");
  return Value(static_cast<int64_t>(rounded));
}

Value Sum(Machine& machine, const Value& input, const Arguments& arguments) {
  arguments.Bind("sum", {});
  Value sum(int64_t{0});
  for (const Value& item : machine.Items(input)) sum = BinaryOperation(machine, "+", sum, item);
  return sum;
}

template <bool kMost>
Value Extreme(Machine& machine, const Value& input, const Arguments& arguments) {
  const bool case_sensitive = Truth(arguments.Bind("min or max", {"case_sensitive"})[0]);
  Value best, best_key;
  for (const Value& item : machine.Items(input)) {
    const Value key = Folded(machine, item, case_sensitive);
    const bool better =
        best.IsUndefined() || (kMost ? PaidLess(machine, best_key, key) : PaidLess(machine, key, best_key));
    if (better) best = item, best_key = key;
  }
  return best;
}

constexpr struct {
  std::string_view name;
  Filter filter;
} kFilters[] = {
    {"trim", Trim},
    {"length", Length},
    {"count", Length},
    {"lower", ChangeCase<Case::kLower>},
    {"upper", ChangeCase<Case::kUpper>},
    {"title", ChangeCase<Case::kWords>},
    {"capitalize", ChangeCase<Case::kCapitalize>},
    {"join", JoinItems},
    {"tojson", Json},
    {"string", ToString},
    {"safe", ToString},
    {"int", ToInteger},
    {"float", ToFloat},
    {"list", ToList},
    {"first", EndItem<false>},
    {"last", EndItem<true>},
    {"default", Default},
    {"d", Default},
    {"replace", ReplaceText},
    {"items", ItemPairs},
    {"dictsort", SortDict},
    {"sort", SortItems},
    {"map", Map},
    {"select", Select<true, false>},
    {"reject", Select<false, false>},
    {"selectattr", Select<true, true>},
    {"rejectattr", Select<false, true>},
    {"unique", Unique},
    {"reverse", Reverse},
    {"indent", Indent},
    {"escape", Escape},
    {"e", Escape},
    {"abs", Absolute},
    {"round", Round},
    {"sum", Sum},
    {"min", Extreme<false>},
    {"max", Extreme<true>},
};

}  // namespace

Value ApplyFilter(Machine& machine, const std::string& name, const Value& input, const Arguments& arguments) {
  for (const auto& entry : kFilters) {
    if (entry.name == name) return entry.filter(machine, input, arguments);
  }
  Fail(Code::kUnsupported, "the filter \"%s\" is not known here", Short(name).c_str());
}

}  // namespace moonlit::jinja
