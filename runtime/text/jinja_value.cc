// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja_value.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace moonlit::jinja {

Extent ExtentOf(const Value& value) {
  if (const List* list = value.list()) return list->extent;
  if (const Dict* dict = value.dict()) return dict->extent;
  const size_t size = value.text() != nullptr ? value.text()->size() : 0;
  return {.depth = 0, .weight = 1 + uint64_t{size}, .work = 1 + uint64_t{size} / 64};
}

namespace {

class Around {
 public:
  void Add(const Value& value) {
    const Extent inner = ExtentOf(value);
    extent_.depth = std::max(extent_.depth, inner.depth);
    extent_.weight += inner.weight;
    extent_.work += inner.work;
    if (extent_.weight > kMostValueWeight) Fail(Code::kExhausted, "a list or dict became too large");
  }
  // Each of n keys is sought among n.
  void AddSearches(size_t n, uint64_t keys_work) { extent_.work += uint64_t{n} * keys_work / 16; }
  Extent Close() {
    if (extent_.depth >= kMostValueDepth)
      Fail(Code::kExhausted, "lists and dicts may be nested %d times, found more", kMostValueDepth);
    ++extent_.depth;
    return extent_;
  }

 private:
  Extent extent_;
};

template <typename T>
const T* Pointer(const std::shared_ptr<const T>* held) {
  return held == nullptr ? nullptr : held->get();
}

bool EqualLists(const List& a, const List& b) {
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), Equal);
}

bool EqualDicts(const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    const Value* other = b.Find(entry.first);
    return other != nullptr && Equal(entry.second, *other);
  });
}

}  // namespace

void Fail(Code code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string message = FormatMessage(format, args);
  va_end(args);
  throw Fault{code, std::move(message)};
}

Value Value::OfList(std::vector<Value> items) {
  auto list = std::make_shared<List>();
  Around around;
  for (const Value& item : items) around.Add(item);
  list->extent = around.Close();
  list->items = std::move(items);
  return Value(std::shared_ptr<const List>(std::move(list)));
}

Value Value::OfDict(std::vector<std::pair<Value, Value>> entries) {
  auto dict = std::make_shared<Dict>();
  Around around;
  uint64_t keys_work = 0;
  for (const auto& [key, item] : entries) {
    around.Add(key);
    around.Add(item);
    keys_work += ExtentOf(key).work;
  }
  around.AddSearches(entries.size(), keys_work);
  dict->extent = around.Close();
  dict->entries = std::move(entries);
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

const Text* Value::text() const { return Pointer(std::get_if<std::shared_ptr<const Text>>(&held_)); }
const List* Value::list() const { return Pointer(std::get_if<std::shared_ptr<const List>>(&held_)); }
const Dict* Value::dict() const { return Pointer(std::get_if<std::shared_ptr<const Dict>>(&held_)); }
const Callable* Value::callable() const { return Pointer(std::get_if<std::shared_ptr<const Callable>>(&held_)); }
Namespace* Value::space() const {
  Namespace* const* held = std::get_if<Namespace*>(&held_);
  return held == nullptr ? nullptr : *held;
}
const Loop* Value::loop() const {
  const Loop* const* held = std::get_if<const Loop*>(&held_);
  return held == nullptr ? nullptr : *held;
}
int64_t Value::AsInteger() const {
  const bool* flag = std::get_if<bool>(&held_);
  return flag != nullptr ? (*flag ? 1 : 0) : std::get<int64_t>(held_);
}
double Value::AsDouble() const {
  const double* real = std::get_if<double>(&held_);
  return real != nullptr ? *real : static_cast<double>(AsInteger());
}

const Value* Dict::Find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    const Text* text = name.text();
    if (text != nullptr && text->bytes() == key) return &value;
  }
  return nullptr;
}

const Value* Dict::Find(const Value& key) const {
  if (const Text* text = key.text()) return Find(std::string_view(text->bytes()));
  for (const auto& [name, value] : entries) {
    if (Equal(name, key)) return &value;
  }
  return nullptr;
}

std::vector<Value> Arguments::Bind(const char* function, const std::vector<std::string_view>& names) const {
  if (positional.size() > names.size()) {
    Fail(Code::kInvalidArgument, "%s takes at most %zu arguments, found %zu", function, names.size(),
         positional.size());
  }
  std::vector<Value> bound(positional);
  bound.resize(names.size());
  for (const auto& [name, value] : named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      Fail(Code::kUnsupported, "%s has no argument named %s that is known here", function, Short(name).c_str());
    const auto i = static_cast<size_t>(found - names.begin());
    if (i < positional.size()) Fail(Code::kInvalidArgument, "%s got %s twice", function, Short(name).c_str());
    bound[i] = value;
  }
  return bound;
}

const char* KindName(const Value& value) {
  if (value.IsUndefined()) return "an undefined value";
  if (value.IsNone()) return "none";
  if (value.Is<bool>()) return "a boolean";
  if (value.IsNumber()) return "a number";
  if (value.text() != nullptr) return "a string";
  if (value.list() != nullptr) return "a list";
  if (value.dict() != nullptr) return "a dict";
  if (value.space() != nullptr) return "a namespace";
  return value.loop() != nullptr ? "a loop" : "a function";
}

bool Truth(const Value& value) {
  if (value.IsUndefined() || value.IsNone()) return false;
  if (value.IsInteger()) return value.AsInteger() != 0;
  if (value.IsNumber()) return value.AsDouble() != 0;
  if (const Text* text = value.text()) return text->size() > 0;
  if (const List* list = value.list()) return !list->items.empty();
  if (const Dict* dict = value.dict()) return !dict->entries.empty();
  return true;
}

bool Equal(const Value& a, const Value& b) {
  if (a.IsInteger() && b.IsInteger()) return a.AsInteger() == b.AsInteger();
  if (a.IsNumber() && b.IsNumber()) return a.AsDouble() == b.AsDouble();
  if (a.text() != nullptr && b.text() != nullptr) return a.text()->bytes() == b.text()->bytes();
  if (a.list() != nullptr && b.list() != nullptr) return EqualLists(*a.list(), *b.list());
  if (a.dict() != nullptr && b.dict() != nullptr) return EqualDicts(*a.dict(), *b.dict());
  if (a.space() != nullptr || a.loop() != nullptr || a.callable() != nullptr)
    return a.space() == b.space() && a.loop() == b.loop() && a.callable() == b.callable();
  return (a.IsNone() && b.IsNone()) || (a.IsUndefined() && b.IsUndefined());
}

namespace {

// Below 0, 0 or above 0, in one walk: std::lexicographical_compare asks twice about each item, and so 2^depth times about nested ones.
int OrderLists(const List& a, const List& b) {
  const size_t common = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < common; ++i) {
    const Value &left = a.items[i], &right = b.items[i];
    if (left.list() != nullptr && right.list() != nullptr) {
      if (const int order = OrderLists(*left.list(), *right.list()); order != 0) return order;
    } else if (!Equal(left, right)) {
      return Less(left, right) ? -1 : 1;
    }
  }
  return a.items.size() < b.items.size() ? -1 : a.items.size() > b.items.size() ? 1 : 0;
}

}  // namespace

bool Less(const Value& a, const Value& b) {
  if (a.IsInteger() && b.IsInteger()) return a.AsInteger() < b.AsInteger();
  if (a.IsNumber() && b.IsNumber()) return a.AsDouble() < b.AsDouble();
  if (a.text() != nullptr && b.text() != nullptr) return a.text()->bytes() < b.text()->bytes();
  if (a.list() != nullptr && b.list() != nullptr) return OrderLists(*a.list(), *b.list()) < 0;
  Fail(Code::kInvalidArgument, "%s and %s can't be compared", KindName(a), KindName(b));
}

}  // namespace moonlit::jinja
