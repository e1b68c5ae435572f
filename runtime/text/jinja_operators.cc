// SPDX-License-Identifier: Apache-2.0
// Operators, tests and global functions.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>

#include "runtime/text/jinja_functions.h"

namespace moonlit::jinja {
namespace {

[[noreturn]] void FailOperands(const std::string& word, const Value& left, const Value& right) {
  Fail(Code::kInvalidArgument, "%s and %s have no operation %s", KindName(left), KindName(right), word.c_str());
}

int64_t IntegerPower(int64_t base, int64_t exponent) {
  int64_t result = 1;
  bool overflow = false;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) overflow = overflow || __builtin_mul_overflow(result, base, &result);
    if (exponent > 1) overflow = overflow || __builtin_mul_overflow(base, base, &base);
  }
  if (overflow) Fail(Code::kInvalidArgument, "a number is too large");
  return result;
}

// Towards minus infinity, as Python divides.
Value DivideIntegers(const std::string& word, int64_t a, int64_t b) {
  if (b == 0) Fail(Code::kInvalidArgument, "a division by 0");
  if (a == std::numeric_limits<int64_t>::min() && b == -1) Fail(Code::kInvalidArgument, "a number is too large");
  const int64_t remainder = a % b;
  const bool down = remainder != 0 && (remainder < 0) != (b < 0);
  if (word == "%") return Value(down ? remainder + b : remainder);
  return Value(a / b - (down ? 1 : 0));
}

Value IntegerOperation(const std::string& word, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  if (word == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (word == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (word == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (word == "**" && b >= 0) {
    result = IntegerPower(a, b);
  } else {
    return DivideIntegers(word, a, b);
  }
  if (overflow) Fail(Code::kInvalidArgument, "a number is too large");
  return Value(result);
}

Value RealOperation(const std::string& word, double a, double b) {
  if (word == "+") return Value(a + b);
  if (word == "-") return Value(a - b);
  if (word == "*") return Value(a * b);
  if (word == "**") return Value(std::pow(a, b));
  if (b == 0) Fail(Code::kInvalidArgument, "a division by 0");
  if (word == "/") return Value(a / b);
  if (word == "//") return Value(std::floor(a / b));
  return Value(a - b * std::floor(a / b));
}

Value Repeat(Machine& machine, const Value& of, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const size_t size = of.text() != nullptr ? of.text()->size() : of.list()->items.size() * sizeof(Value);
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(size), static_cast<uint64_t>(times), &bytes))
    Fail(Code::kExhausted, "the template makes too much text");
  machine.Pay(bytes);
  if (of.text() != nullptr) {
    Text text;
    for (int64_t i = 0; size > 0 && i < times; ++i) text.Append(*of.text());
    return Value::OfText(std::move(text));
  }
  std::vector<Value> items;
  for (int64_t i = 0; size > 0 && i < times; ++i)
    items.insert(items.end(), of.list()->items.begin(), of.list()->items.end());
  return Value::OfList(std::move(items));
}

Value Join(Machine& machine, const Value& left, const Value& right) {
  if (left.text() != nullptr) {
    machine.Pay(left.text()->size() + right.text()->size());
    Text text = *left.text();
    text.Append(*right.text());
    return Value::OfText(std::move(text));
  }
  std::vector<Value> items = left.list()->items;
  items.insert(items.end(), right.list()->items.begin(), right.list()->items.end());
  return machine.NewList(std::move(items));
}

// ---- Global functions

Value Range(Machine& machine, const Arguments& arguments) {
  std::vector<Value> bound = arguments.Bind("range", {"start", "stop", "step"});
  const int64_t first = ToIndex(bound[0], "range");
  const bool one = bound[1].IsUndefined();
  const int64_t begin = one ? 0 : first, end = one ? first : ToIndex(bound[1], "range");
  const int64_t step = bound[2].IsUndefined() ? 1 : ToIndex(bound[2], "range");
  if (step == 0) Fail(Code::kInvalidArgument, "range: the step is 0");
  std::vector<Value> items;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    machine.Step(1);
    machine.Charge(sizeof(Value));
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value::OfList(std::move(items));
}

Value MakeNamespace(Machine& machine, const Arguments& arguments) {
  Namespace* space = machine.NewNamespace();
  for (const Value& given : arguments.positional) {
    if (given.dict() == nullptr) Fail(Code::kInvalidArgument, "namespace: expected a dict, found %s", KindName(given));
    machine.Pay(given.dict()->entries.size() * sizeof(Value));
    for (const auto& [key, value] : given.dict()->entries)
      space->variables.emplace_back(RequireText(key, "namespace").bytes(), value);
  }
  for (const auto& [name, value] : arguments.named) {
    machine.PayForNames(space->variables.size(), name.size());
    std::erase_if(space->variables, [&](const auto& held) { return held.first == name; });
    space->variables.emplace_back(name, value);
  }
  return Value(space);
}

Value MakeDict(Machine& machine, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (!arguments.positional.empty()) Fail(Code::kUnsupported, "dict of something");
  for (const auto& [name, value] : arguments.named) entries.emplace_back(Value::OfWord(name), value);
  machine.Pay(entries.size() * sizeof(Value));
  return Value::OfDict(std::move(entries));
}

Value RaiseException(Machine&, const Arguments& arguments) {
  const Value message = arguments.Bind("raise_exception", {"message"})[0];
  Fail(Code::kInvalidArgument, "the template says: %s", Short(ToText(message).bytes(), 400).c_str());
}

Value StrftimeNow(Machine& machine, const Arguments& arguments) {
  const Value bound = arguments.Bind("strftime_now", {"format"})[0];
  const Text& format = RequireText(bound, "strftime_now");
  const auto now = static_cast<std::time_t>(machine.now());
  std::tm local = {};
  char buffer[256];
  if (format.size() > 64)
    Fail(Code::kInvalidArgument, "strftime_now: the format is too long, expected at most 64 bytes");
  // 32-bit systems may have a shorter time_t.
  if (static_cast<int64_t>(now) != machine.now() || localtime_r(&now, &local) == nullptr)
    Fail(Code::kInvalidArgument, "strftime_now: the time, %lld seconds after 1970, is no date",
         static_cast<long long>(machine.now()));
  const size_t n = std::strftime(buffer, sizeof buffer, format.bytes().c_str(), &local);
  bool from_data = false;
  for (size_t i = 0; i < format.size(); ++i) from_data |= format.FromData(i);
  return machine.NewText(Text(std::string(buffer, n), from_data));
}

bool IsKind(const std::string& name, const Value& value, bool* known) {
  *known = true;
  if (name == "defined") return !value.IsUndefined();
  if (name == "undefined") return value.IsUndefined();
  if (name == "none") return value.IsNone();
  if (name == "boolean") return value.Is<bool>();
  if (name == "true") return value.Is<bool>() && Truth(value);
  if (name == "false") return value.Is<bool>() && !Truth(value);
  if (name == "integer") return value.Is<int64_t>();
  if (name == "float") return value.Is<double>();
  if (name == "number") return value.IsNumber();
  if (name == "string") return value.text() != nullptr;
  if (name == "mapping") return value.dict() != nullptr;
  // Jinja's test asks for a length and items by number, which strings, dicts and undefined values have, too.
  if (name == "sequence" || name == "iterable")
    return value.text() != nullptr || value.list() != nullptr || value.dict() != nullptr || value.IsUndefined();
  if (name == "callable") return value.callable() != nullptr;
  *known = false;
  return false;
}

int64_t TestInteger(const Value& value, const std::string& test) {
  if (!value.IsInteger())
    Fail(Code::kInvalidArgument, "%s: expected an integer, found %s", test.c_str(), KindName(value));
  return value.AsInteger();
}

}  // namespace

int64_t ToIndex(const Value& value, const char* what) {
  if (!value.IsInteger()) Fail(Code::kInvalidArgument, "%s: expected an integer, found %s", what, KindName(value));
  return value.AsInteger();
}

Value BinaryOperation(Machine& machine, const std::string& word, const Value& left, const Value& right) {
  if (word == "~") {
    Text text = ToText(left);
    text.Append(ToText(right));
    return machine.NewText(std::move(text));
  }
  if (left.IsNumber() && right.IsNumber()) {
    const bool real = !left.IsInteger() || !right.IsInteger() || word == "/" || (word == "**" && right.AsDouble() < 0);
    return real ? RealOperation(word, left.AsDouble(), right.AsDouble())
                : IntegerOperation(word, left.AsInteger(), right.AsInteger());
  }
  const auto sequence = [](const Value& value) { return value.text() != nullptr || value.list() != nullptr; };
  if (word == "+" &&
      ((left.text() != nullptr && right.text() != nullptr) || (left.list() != nullptr && right.list() != nullptr)))
    return Join(machine, left, right);
  if (word == "*" && sequence(left) && right.IsInteger()) return Repeat(machine, left, right.AsInteger());
  if (word == "*" && sequence(right) && left.IsInteger()) return Repeat(machine, right, left.AsInteger());
  FailOperands(word, left, right);
}

bool Contains(Machine& machine, const Value& container, const Value& item) {
  if (const Text* text = container.text()) {
    const std::string& wanted = RequireText(item, "in").bytes();
    PayForSearch(machine, text->size(), wanted.size());
    return text->bytes().find(wanted) != std::string::npos;
  }
  if (const List* list = container.list()) {
    return std::any_of(list->items.begin(), list->items.end(), [&](const Value& one) {
      PayForCompare(machine, one, item);
      return Equal(one, item);
    });
  }
  if (const Dict* dict = container.dict()) {
    PayForFind(machine, *dict, item);
    return dict->Find(item) != nullptr;
  }
  if (container.IsUndefined()) return false;
  Fail(Code::kInvalidArgument, "in: expected a string, list or dict, found %s", KindName(container));
}

Value FindGlobal(std::string_view name) {
  static constexpr struct {
    std::string_view name;
    Value (*function)(Machine&, const Arguments&);
  } kFunctions[] = {
      {"range", Range},
      {"namespace", MakeNamespace},
      {"dict", MakeDict},
      {"raise_exception", RaiseException},
      {"strftime_now", StrftimeNow},
  };
  for (const auto& entry : kFunctions) {
    if (entry.name != name) continue;
    auto callable = std::make_shared<Callable>();
    callable->name = name;
    callable->call = entry.function;
    return Value(std::shared_ptr<const Callable>(std::move(callable)));
  }
  return Value();
}

bool ApplyTest(Machine& machine, const std::string& name, const Value& input, const Arguments& arguments) {
  bool known = false;
  const bool kind = IsKind(name, input, &known);
  if (known) {
    arguments.Bind(name.c_str(), {});
    return kind;
  }
  if (name == "even" || name == "odd") return (TestInteger(input, name) % 2 == 0) == (name == "even");
  if (name == "lower" || name == "upper") {
    const Text& text = RequireText(input, "a test");
    // As Python's str.islower and isupper: some character has a case.
    const Text lower = WithCase(machine, text, Case::kLower), upper = WithCase(machine, text, Case::kUpper);
    return lower.bytes() != upper.bytes() && text.bytes() == (name == "lower" ? lower : upper).bytes();
  }
  const Value other = arguments.Bind(name.c_str(), {"other"})[0];
  if (name == "in") return Contains(machine, other, input);
  PayForCompare(machine, input, other);
  if (name == "equalto" || name == "eq" || name == "sameas") return Equal(input, other);
  if (name == "ne") return !Equal(input, other);
  if (name == "lt" || name == "lessthan") return Less(input, other);
  if (name == "gt" || name == "greaterthan") return Less(other, input);
  if (name == "le") return !Less(other, input);
  if (name == "ge") return !Less(input, other);
  if (name == "divisibleby") {
    return DivideIntegers("%", TestInteger(input, name), TestInteger(other, name)).AsInteger() == 0;
  }
  Fail(Code::kUnsupported, "the test \"%s\" is not known here", Short(name).c_str());
}

}  // namespace moonlit::jinja
