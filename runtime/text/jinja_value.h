// SPDX-License-Identifier: Apache-2.0
// Values of a chat template's language, the part of Jinja that templates use (https://jinja.palletsprojects.com/templates/), with
// the meaning that values have in Python. Every byte of a text knows whether the template wrote it or the caller's data.
//
// Values never change once they are made (transformers' sandbox forbids changing lists and dicts, too), except namespaces, which
// their evaluation owns. Nesting and size are bounded, so whatever walks through a value ends soon.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/quote.h"
#include "runtime/base/status.h"

namespace moonlit::jinja {

// What stops a template, thrown within jinja_*.cc alone and caught where a template is parsed and rendered (chat_template.cc):
// every operator would otherwise have to pass it on.
struct Fault {
  Code code;
  std::string message;
};
// Of a name from a template, what has room in a message.
inline std::string Short(std::string_view name, size_t bytes = 64) { return std::string(FrontForMessage(name, bytes)); }
[[noreturn]] void Fail(Code code, const char* format, ...) __attribute__((format(printf, 2, 3)));

inline constexpr int kMostValueDepth = 100;
// Values and bytes of text within a value, counted as often as they would be printed: sharing makes doublings cheap.
inline constexpr uint64_t kMostValueWeight = uint64_t{1} << 26;

class Text {
 public:
  Text() = default;
  Text(std::string bytes, bool from_data) : bytes_(std::move(bytes)), marks_(bytes_.size(), from_data ? 1 : 0) {}
  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool FromData(size_t i) const { return marks_[i] != 0; }
  void Append(const Text& other) {
    bytes_ += other.bytes_;
    marks_ += other.marks_;
  }
  // A stretch of another text; npos: to its end.
  void Append(const Text& other, size_t begin, size_t length) {
    bytes_.append(other.bytes_, begin, length);
    marks_.append(other.marks_, begin, length);
  }
  void Append(std::string_view bytes, bool from_data) {
    bytes_ += bytes;
    marks_.append(bytes.size(), from_data ? 1 : 0);
  }
  Text Cut(size_t begin, size_t length = std::string::npos) const {
    Text cut;
    cut.Append(*this, begin, length);
    return cut;
  }

 private:
  std::string bytes_;
  std::string marks_;  // one a byte: 1 for data
};

class Value;
struct List;
struct Dict;
struct Namespace;
struct Loop;
struct Callable;

struct Undefined {};
struct None {};

class Value {
 public:
  using Variant =
      std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>, std::shared_ptr<const List>,
                   std::shared_ptr<const Dict>, Namespace*, const Loop*, std::shared_ptr<const Callable>>;
  Value() = default;  // undefined
  template <typename T>
  requires std::is_constructible_v<Variant, T> Value(T held) : held_(std::move(held)) {}  // NOLINT: implicit on purpose
  static Value OfText(Text text) { return Value(std::make_shared<const Text>(std::move(text))); }
  // What the template's own words are.
  static Value OfWord(std::string_view word) { return OfText(Text(std::string(word), false)); }
  static Value OfList(std::vector<Value> items);
  static Value OfDict(std::vector<std::pair<Value, Value>> entries);

  bool IsUndefined() const { return Is<Undefined>(); }
  bool IsNone() const { return Is<None>(); }
  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(held_);
  }
  bool IsInteger() const { return Is<int64_t>() || Is<bool>(); }
  bool IsNumber() const { return IsInteger() || Is<double>(); }
  // Null where it is something else.
  const Text* text() const;
  const List* list() const;
  const Dict* dict() const;
  Namespace* space() const;
  const Loop* loop() const;
  const Callable* callable() const;
  int64_t AsInteger() const;  // REQUIRES: IsInteger()
  double AsDouble() const;    // REQUIRES: IsNumber()

 private:
  Variant held_;
};

struct Extent {
  int depth = 0;
  uint64_t weight = 1;
  uint64_t work = 1;  // steps of Machine::Step that comparing it with another value takes at most
};
Extent ExtentOf(const Value& value);
struct List {
  std::vector<Value> items;
  Extent extent;
};
// In the order of insertion.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  Extent extent;
  const Value* Find(std::string_view key) const;
  const Value* Find(const Value& key) const;
};
struct Namespace {
  std::vector<std::pair<std::string, Value>> variables;
};
// What `loop` is inside a for: templates reach its variables, never itself, so that it can live no longer than the for.
struct Loop {
  const std::vector<Value>* items = nullptr;
  size_t index0 = 0;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  // Values by the order of `names`, undefined where none was given. kInvalidArgument: too many, or a name that is none of them.
  std::vector<Value> Bind(const char* function, const std::vector<std::string_view>& names) const;
};

class Machine;
struct Callable {
  std::string name;
  std::function<Value(Machine&, const Arguments&)> call;
};

const char* KindName(const Value& value);  // "string", "list" ... for messages
bool Truth(const Value& value);
bool Equal(const Value& a, const Value& b);
// Less, as Python has it: numbers, texts and lists among themselves. kInvalidArgument for others. Both take time in proportion to
// the smaller Extent::work.
bool Less(const Value& a, const Value& b);

// What an output of it prints: str() of Python, and nothing for an undefined one.
Text ToText(const Value& value);
// Python's repr().
std::string Repr(const Value& value);
struct JsonStyle {
  int indent = -1;  // -1: one line
  bool sort_keys = false;
  std::string item_separator, key_separator;  // empty: Python's defaults
};
// json.dumps(ensure_ascii=False). kInvalidArgument for what JSON has no form for.
std::string ToJson(const Value& value, const JsonStyle& style);

}  // namespace moonlit::jinja
