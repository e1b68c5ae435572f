// SPDX-License-Identifier: Apache-2.0
// Runs a template's tree. Templates come with model files, so what a run may cost is bounded: steps, bytes made, calls within calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/jinja_syntax.h"

namespace moonlit::jinja {

struct Limits {
  // Nodes evaluated, 64 bytes or items gone through, 8 bytes of a text by its characters: some seconds on a slow core.
  uint64_t steps = 20'000'000;
  uint64_t bytes =
      uint64_t{1} << 28;  // of all texts and lists that are made, one after another; far fewer live at once
  int depth = 200;        // of evaluation, macros' calls included
};

using Variables = std::vector<std::pair<std::string, Value>>;

class Machine {
 public:
  Machine(const Limits& limits, int64_t now) : limits_(limits), now_(now) {}

  // What the template prints with these variables. Throws Fault, with the line.
  Text Run(const Node& root, Variables variables);

  // For functions and filters: pays for work before it is done. kExhausted.
  void Step(uint64_t count);
  void Charge(uint64_t bytes);
  // Work on n bytes or items that may live on.
  void Pay(uint64_t n) {
    Step(1 + n / 64);
    Charge(n);
  }
  // A walk through n bytes of a text by its characters.
  void Walk(uint64_t n) { Step(1 + n / 8); }
  // A walk past `count` names in search of one of `size` bytes.
  void PayForNames(uint64_t count, uint64_t size) { Step(count * (4 + size) / 64); }
  Value NewText(Text text) {
    Pay(text.size());
    return Value::OfText(std::move(text));
  }
  Value NewList(std::vector<Value> items) {
    Pay(items.size() * sizeof(Value));
    return Value::OfList(std::move(items));
  }
  Namespace* NewNamespace();
  Value Call(const Value& function, const Arguments& arguments);
  // Items of a list, keys of a dict, characters of a text, nothing of an undefined value. kInvalidArgument for others.
  std::vector<Value> Items(const Value& value);
  int64_t now() const { return now_; }  // seconds since 1970

 private:
  struct Scope {
    Scope* outer;
    Variables variables;
  };
  enum class Flow { kNext, kBreak, kContinue };
  class Depth;

  Scope* NewScope(Scope* outer);
  void Set(Variables& variables, const std::string& name, Value value);
  const Value* Find(const Scope& scope, const std::string& name);

  Flow Render(const Node& node, Scope& scope, Text* out);
  Flow RenderBlock(const Node& node, Scope& scope, Text* out);
  Flow RenderIf(const Node& node, Scope& scope, Text* out);
  Flow RenderFor(const Node& node, Scope& scope, Text* out);
  std::vector<Value> ChooseItems(const Node& node, Scope& scope, Scope& inner);
  void Assign(const std::vector<std::string>& names, const Value& value, Scope& scope);
  void RenderSet(const Node& node, Scope& scope);
  void DefineMacro(const Node& node, Scope& scope);
  Value CallMacro(const Node& node, Scope& scope, const Arguments& arguments);
  void Append(const Text& text, Text* out);

  Value Evaluate(const Node& node, Scope& scope);
  Value EvaluateUnlocated(const Node& node, Scope& scope);
  Value EvaluateName(const Node& node, Scope& scope);
  Value EvaluateDict(const Node& node, Scope& scope);
  Value EvaluateCompare(const Node& node, Scope& scope);
  Value EvaluateItem(const Node& node, Scope& scope);
  Value EvaluateCall(const Node& node, Scope& scope);
  // The loop that a node speaks of by the name "loop", or null.
  const Loop* LoopOf(const Node& node, const Scope& scope);
  Value EvaluateSlice(const Node& node, Scope& scope);
  Arguments EvaluateArguments(const Node& node, Scope& scope);

  const Limits limits_;
  const int64_t now_;
  uint64_t steps_ = 0;
  uint64_t bytes_ = 0;
  int depth_ = 0;
  std::vector<std::unique_ptr<Scope>> scopes_;  // macros and namespaces may outlive the block that they are of
  std::vector<std::unique_ptr<Namespace>> spaces_;
};

}  // namespace moonlit::jinja
