// SPDX-License-Identifier: Apache-2.0
// A parsed template: one kind of node for everything, since expressions and statements nest in the same way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/text/jinja_value.h"

namespace moonlit::jinja {

// Of a whole template, so that its evaluation and its end recurse no further. Templates of models nest about 30 times.
inline constexpr int kMostSyntaxDepth = 120;

enum class NodeKind {
  // Expressions; children in this order.
  kLiteral,      // literal
  kName,         // name
  kList,         // items
  kDict,         // key, value, key, value ...
  kAttribute,    // of; name
  kItem,         // of, key
  kSlice,        // of, first, last, step; those left out are null
  kCall,         // function, positional arguments ...; named
  kFilter,       // input, positional arguments ...; name, named
  kTest,         // input, positional arguments ...; name
  kNegate,       // of
  kNot,          // of
  kBinary,       // left, right; operators[0]: + - * / // % ** ~
  kCompare,      // operands; operators between them: == != < <= > >= in, not in
  kAnd,          // left, right
  kOr,           // left, right
  kConditional,  // condition, then, else or null
  // Statements.
  kBlock,     // statements
  kText,      // literal
  kOutput,    // expression
  kIf,        // condition, block, condition, block ... [block]
  kFor,       // iterable, condition or null, block, else block or null; names: of the variables
  kSet,       // value; names: variables; name: the namespace of names[0], or empty
  kSetBlock,  // block; names[0]
  kMacro,     // block, default or null for each of names; name
  kBreak,
  kContinue,
};

struct Node;
using NodePtr = std::unique_ptr<const Node>;

struct Node {
  NodeKind kind;
  uint32_t line;  // from 1
  int depth = 1;
  std::string name;
  Value literal;
  std::vector<std::string> names;
  std::vector<std::string> operators;
  std::vector<NodePtr> children;
  std::vector<std::pair<std::string, NodePtr>> named;
};

}  // namespace moonlit::jinja
