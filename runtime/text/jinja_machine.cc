// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja_machine.h"

#include <algorithm>
#include <limits>

#include "runtime/text/jinja_functions.h"

namespace moonlit::jinja {
namespace {

// A fault on its way out says once where it came from.
[[noreturn]] void Locate(const Fault& fault, uint32_t line) {
  if (fault.message.rfind("line ", 0) == 0) throw fault;
  throw Fault{fault.code, "line " + std::to_string(line) + ": " + fault.message};
}

std::string NameOf(const Node& node) {
  if (node.kind == NodeKind::kName || node.kind == NodeKind::kAttribute) return node.name;
  if (node.kind == NodeKind::kItem && node.children[1]->literal.text() != nullptr)
    return node.children[1]->literal.text()->bytes();
  return "this value";
}

Value LoopVariable(const Loop& loop, std::string_view name) {
  const auto index = static_cast<int64_t>(loop.index0), count = static_cast<int64_t>(loop.items->size());
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "revindex") return Value(count - index);
  if (name == "revindex0") return Value(count - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 == count);
  if (name == "length") return Value(count);
  // How deep loops call themselves: recursive ones are refused.
  if (name == "depth") return Value(int64_t{1});
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem") return index > 0 ? (*loop.items)[loop.index0 - 1] : Value();
  if (name == "nextitem") return index + 1 < count ? (*loop.items)[loop.index0 + 1] : Value();
  return Value();
}

// The key itself first, where Jinja looks for an item first; else a method, as Python's attributes go first.
Value Member(Machine& machine, const Value& object, const Value& key, bool attribute) {
  const Text* name = key.text();
  if (const Namespace* space = object.space(); space != nullptr && name != nullptr) {
    machine.PayForNames(space->variables.size(), name->size());
    for (const auto& [held, value] : space->variables) {
      if (held == name->bytes()) return value;
    }
    return Value();
  }
  if (attribute && name != nullptr) {
    Value method = FindMethod(object, name->bytes());
    if (!method.IsUndefined()) return method;
  }
  if (const Dict* dict = object.dict()) {
    PayForFind(machine, *dict, key);
    const Value* found = dict->Find(key);
    return found != nullptr ? *found : Value();
  }
  return Value();
}

}  // namespace

class Machine::Depth {
 public:
  explicit Depth(Machine& machine) : machine_(machine) {
    if (machine_.depth_ >= machine_.limits_.depth)
      Fail(Code::kExhausted, "macros call each other too deeply: %d steps within each other", machine_.limits_.depth);
    ++machine_.depth_;
  }
  ~Depth() { --machine_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Machine& machine_;
};

void Machine::Step(uint64_t count) {
  if (count > limits_.steps - steps_) Fail(Code::kExhausted, "the template takes too long");
  steps_ += count;
}

void Machine::Charge(uint64_t bytes) {
  if (bytes > limits_.bytes - bytes_) Fail(Code::kExhausted, "the template makes too much text");
  bytes_ += bytes;
}

Namespace* Machine::NewNamespace() {
  Charge(sizeof(Namespace));
  spaces_.push_back(std::make_unique<Namespace>());
  return spaces_.back().get();
}

Machine::Scope* Machine::NewScope(Scope* outer) {
  Charge(sizeof(Scope));
  scopes_.push_back(std::make_unique<Scope>(Scope{outer, {}}));
  return scopes_.back().get();
}

void Machine::Set(Variables& variables, const std::string& name, Value value) {
  PayForNames(variables.size(), name.size());
  for (auto& [held, old] : variables) {
    if (held == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

const Value* Machine::Find(const Scope& scope, const std::string& name) {
  for (const Scope* at = &scope; at != nullptr; at = at->outer) {
    PayForNames(at->variables.size(), name.size());
    for (const auto& [held, value] : at->variables) {
      if (held == name) return &value;
    }
  }
  return nullptr;
}

Text Machine::Run(const Node& root, Variables variables) {
  Scope* scope = NewScope(nullptr);
  scope->variables = std::move(variables);
  Text out;
  Render(root, *scope, &out);
  return out;
}

void Machine::Append(const Text& text, Text* out) {
  Pay(text.size());
  out->Append(text);
}

// ---- Statements

Machine::Flow Machine::Render(const Node& node, Scope& scope, Text* out) {
  const Depth depth(*this);
  Step(1);
  switch (node.kind) {
    case NodeKind::kBlock:
      return RenderBlock(node, scope, out);
    case NodeKind::kText:
      Append(*node.literal.text(), out);
      return Flow::kNext;
    case NodeKind::kOutput:
      Append(ToText(Evaluate(*node.children[0], scope)), out);
      return Flow::kNext;
    case NodeKind::kIf:
      return RenderIf(node, scope, out);
    case NodeKind::kFor:
      return RenderFor(node, scope, out);
    case NodeKind::kMacro:
      DefineMacro(node, scope);
      return Flow::kNext;
    case NodeKind::kBreak:
      return Flow::kBreak;
    case NodeKind::kContinue:
      return Flow::kContinue;
    default:
      RenderSet(node, scope);
      return Flow::kNext;
  }
}

Machine::Flow Machine::RenderBlock(const Node& node, Scope& scope, Text* out) {
  for (const NodePtr& statement : node.children) {
    if (const Flow flow = Render(*statement, scope, out); flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Machine::Flow Machine::RenderIf(const Node& node, Scope& scope, Text* out) {
  size_t i = 0;
  for (; i + 1 < node.children.size(); i += 2) {
    if (Truth(Evaluate(*node.children[i], scope))) return Render(*node.children[i + 1], scope, out);
  }
  return i < node.children.size() ? Render(*node.children[i], scope, out) : Flow::kNext;
}

std::vector<Value> Machine::ChooseItems(const Node& node, Scope& scope, Scope& inner) {
  std::vector<Value> items = Items(Evaluate(*node.children[0], scope));
  if (node.children[1] == nullptr) return items;
  std::vector<Value> chosen;
  for (Value& item : items) {
    Assign(node.names, item, inner);
    if (Truth(Evaluate(*node.children[1], inner))) chosen.push_back(std::move(item));
  }
  return chosen;
}

Machine::Flow Machine::RenderFor(const Node& node, Scope& scope, Text* out) {
  Scope* inner = NewScope(&scope);
  const std::vector<Value> items = ChooseItems(node, scope, *inner);
  if (items.empty()) return node.children[3] != nullptr ? Render(*node.children[3], scope, out) : Flow::kNext;
  Loop loop{&items, 0};
  Flow flow = Flow::kNext;
  for (; loop.index0 < items.size() && flow != Flow::kBreak; ++loop.index0) {
    inner->variables.clear();
    Set(inner->variables, "loop", Value(static_cast<const Loop*>(&loop)));
    Assign(node.names, items[loop.index0], *inner);
    flow = Render(*node.children[2], *inner, out);
  }
  inner->variables.clear();
  return Flow::kNext;
}

void Machine::Assign(const std::vector<std::string>& names, const Value& value, Scope& scope) {
  if (names.size() == 1) return Set(scope.variables, names[0], value);
  const List* list = value.list();
  if (list == nullptr || list->items.size() != names.size()) {
    Fail(Code::kInvalidArgument, "%zu variables are to be set from %s of another length", names.size(),
         KindName(value));
  }
  for (size_t i = 0; i < names.size(); ++i) Set(scope.variables, names[i], list->items[i]);
}

void Machine::RenderSet(const Node& node, Scope& scope) try {
  if (node.kind == NodeKind::kSetBlock) {
    Text inside;
    Render(*node.children[0], scope, &inside);
    return Set(scope.variables, node.names[0], Value::OfText(std::move(inside)));
  }
  Value value = Evaluate(*node.children[0], scope);
  Charge(sizeof(Value));
  if (node.name.empty()) return Assign(node.names, value, scope);
  const Value* space = Find(scope, node.name);
  if (space == nullptr || space->space() == nullptr)
    Fail(Code::kInvalidArgument, "%s is no namespace, so %s can't be set in it", Short(node.name).c_str(),
         Short(node.names[0]).c_str());
  Set(space->space()->variables, node.names[0], std::move(value));
} catch (const Fault& fault) {
  Locate(fault, node.line);
}

void Machine::DefineMacro(const Node& node, Scope& scope) {
  auto macro = std::make_shared<Callable>();
  macro->name = node.name;
  macro->call = [&node, &scope](Machine& machine, const Arguments& arguments) {
    return machine.CallMacro(node, scope, arguments);
  };
  Set(scope.variables, node.name, Value(std::shared_ptr<const Callable>(std::move(macro))));
}

Value Machine::CallMacro(const Node& node, Scope& scope, const Arguments& arguments) {
  const Depth depth(*this);
  const std::vector<std::string_view> names(node.names.begin(), node.names.end());
  for (const auto& [name, value] : arguments.named) PayForNames(names.size(), name.size());
  std::vector<Value> values = arguments.Bind(node.name.c_str(), names);
  Scope* inner = NewScope(&scope);
  for (size_t i = 0; i < names.size(); ++i) {
    if (values[i].IsUndefined() && node.children[i + 1] != nullptr) values[i] = Evaluate(*node.children[i + 1], *inner);
    Set(inner->variables, node.names[i], std::move(values[i]));
  }
  Text out;
  Render(*node.children[0], *inner, &out);
  inner->variables.clear();
  return Value::OfText(std::move(out));
}

// ---- Expressions

Value Machine::Evaluate(const Node& node, Scope& scope) try {
  const Depth depth(*this);
  Step(1);
  return EvaluateUnlocated(node, scope);
} catch (const Fault& fault) {
  Locate(fault, node.line);
}

Value Machine::EvaluateUnlocated(const Node& node, Scope& scope) {
  const auto of = [&](size_t i) { return Evaluate(*node.children[i], scope); };
  switch (node.kind) {
    case NodeKind::kLiteral:
      return node.literal;
    case NodeKind::kName:
      return EvaluateName(node, scope);
    case NodeKind::kList: {
      std::vector<Value> items;
      for (size_t i = 0; i < node.children.size(); ++i) items.push_back(of(i));
      return NewList(std::move(items));
    }
    case NodeKind::kDict:
      return EvaluateDict(node, scope);
    case NodeKind::kAttribute:
    case NodeKind::kItem:
      return EvaluateItem(node, scope);
    case NodeKind::kSlice:
      return EvaluateSlice(node, scope);
    case NodeKind::kCall:
      return EvaluateCall(node, scope);
    case NodeKind::kFilter: {
      const Value input = of(0);
      return ApplyFilter(*this, node.name, input, EvaluateArguments(node, scope));
    }
    case NodeKind::kTest: {
      const Value input = of(0);
      return Value(ApplyTest(*this, node.name, input, EvaluateArguments(node, scope)));
    }
    case NodeKind::kNegate: {
      const Value value = of(0);
      return BinaryOperation(*this, "-", Value(int64_t{0}), value);
    }
    case NodeKind::kNot:
      return Value(!Truth(of(0)));
    case NodeKind::kBinary: {
      const Value left = of(0);
      return BinaryOperation(*this, node.operators[0], left, of(1));
    }
    case NodeKind::kCompare:
      return EvaluateCompare(node, scope);
    case NodeKind::kAnd: {
      const Value left = of(0);
      return Truth(left) ? of(1) : left;
    }
    case NodeKind::kOr: {
      const Value left = of(0);
      return Truth(left) ? left : of(1);
    }
    default:  // kConditional
      if (Truth(of(0))) return of(1);
      return node.children[2] != nullptr ? of(2) : Value();
  }
}

Value Machine::EvaluateName(const Node& node, Scope& scope) {
  const Value* found = Find(scope, node.name);
  if (found == nullptr) return FindGlobal(node.name);
  if (found->loop() != nullptr) Fail(Code::kUnsupported, "%s is used other than by its variables", node.name.c_str());
  return *found;
}

const Loop* Machine::LoopOf(const Node& node, const Scope& scope) {
  if (node.kind != NodeKind::kName) return nullptr;
  const Value* found = Find(scope, node.name);
  return found != nullptr ? found->loop() : nullptr;
}

Value Machine::EvaluateCall(const Node& node, Scope& scope) {
  const Node& called = *node.children[0];
  if (called.kind == NodeKind::kAttribute && called.name == "cycle") {
    if (const Loop* loop = LoopOf(*called.children[0], scope)) {
      const Arguments arguments = EvaluateArguments(node, scope);
      const std::vector<Value>& choices = arguments.positional;
      return choices.empty() ? Value() : choices[loop->index0 % choices.size()];
    }
  }
  const Value function = Evaluate(called, scope);
  if (function.callable() == nullptr)
    Fail(Code::kInvalidArgument, "%s is %s, so it can't be called", Short(NameOf(called)).c_str(), KindName(function));
  return Call(function, EvaluateArguments(node, scope));
}

Value Machine::EvaluateDict(const Node& node, Scope& scope) {
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i + 1 < node.children.size(); i += 2) {
    Value key = Evaluate(*node.children[i], scope);
    if (key.list() != nullptr || key.dict() != nullptr)
      Fail(Code::kInvalidArgument, "%s can't be a key of a dict", KindName(key));
    Value value = Evaluate(*node.children[i + 1], scope);
    PayForNames(entries.size(), ExtentOf(key).weight);
    const auto same = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return Equal(e.first, key); });
    if (same != entries.end()) {
      same->second = std::move(value);
    } else {
      entries.emplace_back(std::move(key), std::move(value));
    }
  }
  Pay(entries.size() * 2 * sizeof(Value));
  return Value::OfDict(std::move(entries));
}

Value Machine::EvaluateCompare(const Node& node, Scope& scope) {
  Value left = Evaluate(*node.children[0], scope);
  for (size_t i = 0; i < node.operators.size(); ++i) {
    Value right = Evaluate(*node.children[i + 1], scope);
    const std::string& word = node.operators[i];
    if (word != "in" && word != "not in") PayForCompare(*this, left, right);
    const bool holds = word == "=="   ? Equal(left, right)
                       : word == "!=" ? !Equal(left, right)
                       : word == "<"  ? Less(left, right)
                       : word == ">"  ? Less(right, left)
                       : word == "<=" ? !Less(right, left)
                       : word == ">=" ? !Less(left, right)
                                      : Contains(*this, right, left) == (word == "in");
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Machine::EvaluateItem(const Node& node, Scope& scope) {
  const bool attribute = node.kind == NodeKind::kAttribute;
  if (const Loop* loop = attribute ? LoopOf(*node.children[0], scope) : nullptr) return LoopVariable(*loop, node.name);
  const Value object = Evaluate(*node.children[0], scope);
  if (attribute) Step(node.name.size() / 64);
  const Value key = attribute ? Value::OfWord(node.name) : Evaluate(*node.children[1], scope);
  if (object.IsUndefined()) Fail(Code::kInvalidArgument, "%s is undefined", Short(NameOf(*node.children[0])).c_str());
  const List* list = object.list();
  const Text* text = object.text();
  if (attribute || !key.IsInteger() || (list == nullptr && text == nullptr))
    return Member(*this, object, key, attribute);
  const auto count = static_cast<int64_t>(list != nullptr ? list->items.size() : CountCharacters(*this, text->bytes()));
  int64_t i = key.AsInteger();
  if (i < 0) i += count;
  if (i < 0 || i >= count) return Value();
  if (list != nullptr) return list->items[static_cast<size_t>(i)];
  const size_t begin = CharacterOffset(text->bytes(), static_cast<size_t>(i));
  return NewText(text->Cut(begin, CharacterBytes(std::string_view(text->bytes()).substr(begin))));
}

// Python's rules for bounds outside the length (Language Reference, 6.3.3; sequences' s[i:j:k]).
Value Machine::EvaluateSlice(const Node& node, Scope& scope) {
  const Value object = Evaluate(*node.children[0], scope);
  const auto bound = [&](size_t i, int64_t none) {
    if (node.children[i] == nullptr) return none;
    const Value value = Evaluate(*node.children[i], scope);
    return value.IsNone() ? none : ToIndex(value, "a slice's bound");
  };
  constexpr int64_t kAbsent = std::numeric_limits<int64_t>::min();
  const int64_t step = bound(3, 1);
  if (step == 0) Fail(Code::kInvalidArgument, "a slice's step is 0");
  if (object.text() == nullptr && object.list() == nullptr)
    Fail(Code::kInvalidArgument, "%s can't be sliced", KindName(object));
  const Text* text = object.text();
  const auto count =
      static_cast<int64_t>(text != nullptr ? CountCharacters(*this, text->bytes()) : object.list()->items.size());
  const auto clamp = [&](int64_t i) {
    if (i < 0) i = std::max<int64_t>(i, -count - 1) + count;
    return std::clamp<int64_t>(i, step > 0 ? 0 : -1, step > 0 ? count : count - 1);
  };
  int64_t first = bound(1, kAbsent), last = bound(2, kAbsent);
  first = first == kAbsent ? (step > 0 ? 0 : count - 1) : clamp(first);
  last = last == kAbsent ? (step > 0 ? count : -1) : clamp(last);
  if (text != nullptr && step == 1) {
    const size_t begin = CharacterOffset(text->bytes(), static_cast<size_t>(first));
    const size_t end = CharacterOffset(text->bytes(), static_cast<size_t>(std::max(first, last)));
    return NewText(text->Cut(begin, end - begin));
  }
  const std::vector<Value> items = Items(object);
  std::vector<Value> chosen;
  // Steps are cut to the length, so that i can't overflow.
  const int64_t stride = std::clamp<int64_t>(step, -count - 1, count + 1);
  for (int64_t i = first; stride > 0 ? i < last : i > last; i += stride)
    chosen.push_back(items[static_cast<size_t>(i)]);
  if (text == nullptr) return NewList(std::move(chosen));
  Text joined;
  for (const Value& one : chosen) joined.Append(*one.text());
  return NewText(std::move(joined));
}

Arguments Machine::EvaluateArguments(const Node& node, Scope& scope) {
  Arguments arguments;
  for (size_t i = 1; i < node.children.size(); ++i) arguments.positional.push_back(Evaluate(*node.children[i], scope));
  for (const auto& [name, value] : node.named) arguments.named.emplace_back(name, Evaluate(*value, scope));
  return arguments;
}

Value Machine::Call(const Value& function, const Arguments& arguments) {
  Step(1);
  return function.callable()->call(*this, arguments);
}

std::vector<Value> Machine::Items(const Value& value) {
  std::vector<Value> items;
  if (const List* list = value.list()) {
    Pay(list->items.size() * sizeof(Value));
    return list->items;
  }
  if (const Dict* dict = value.dict()) {
    Pay(dict->entries.size() * sizeof(Value));
    for (const auto& [key, item] : dict->entries) items.push_back(key);
    return items;
  }
  if (const Text* text = value.text()) {
    Step(text->size());
    // A text of its own for every character.
    Charge(text->size() * (sizeof(Value) + sizeof(Text) + 16));
    for (size_t i = 0; i < text->size();) {
      const size_t n = CharacterBytes(std::string_view(text->bytes()).substr(i));
      items.push_back(Value::OfText(text->Cut(i, n)));
      i += n;
    }
    return items;
  }
  if (!value.IsUndefined()) Fail(Code::kInvalidArgument, "expected something to go through, found %s", KindName(value));
  return items;
}

}  // namespace moonlit::jinja
