// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja_expressions.h"

#include <charconv>
#include <iterator>
#include <system_error>

namespace moonlit::jinja {

// The weakest binding first.

NodePtr ExpressionParser::ParseTuple(bool with_condition) {
  NodePtr first = with_condition ? ParseExpression() : ParseOr();
  if (!IsOperator(",")) return first;
  NewNode list = With(NodeKind::kList, "", std::move(first));
  while (SkipOperator(",")) {
    if (Now().kind != TokenKind::kOperator && Now().kind > TokenKind::kText && Now().kind <= TokenKind::kBlockEnd)
      break;
    Add(*list, with_condition ? ParseExpression() : ParseOr());
  }
  return list;
}

NodePtr ExpressionParser::ParseExpression() {
  const Level level(*this);
  NodePtr value = ParseOr();
  while (SkipName("if")) {
    NewNode node = New(NodeKind::kConditional);
    Add(*node, ParseOr());
    Add(*node, std::move(value));
    Add(*node, SkipName("else") ? ParseExpression() : nullptr);
    value = std::move(node);
  }
  return value;
}

NodePtr ExpressionParser::ParseOr() {
  NodePtr left = ParseAnd();
  while (SkipName("or")) left = With(NodeKind::kOr, "", std::move(left), ParseAnd());
  return left;
}

NodePtr ExpressionParser::ParseAnd() {
  NodePtr left = ParseNot();
  while (SkipName("and")) left = With(NodeKind::kAnd, "", std::move(left), ParseNot());
  return left;
}

NodePtr ExpressionParser::ParseNot() {
  if (!SkipName("not")) return ParseCompare();
  const Level level(*this);
  return With(NodeKind::kNot, "", ParseNot());
}

std::string ExpressionParser::SkipComparison() {
  static constexpr std::string_view kOperators[] = {"==", "!=", "<=", ">=", "<", ">"};
  for (const std::string_view word : kOperators) {
    if (SkipOperator(word)) return std::string(word);
  }
  if (SkipName("in")) return "in";
  if (IsName("not") && Next().kind == TokenKind::kName && Next().text == "in") {
    at_ += 2;
    return "not in";
  }
  return "";
}

NodePtr ExpressionParser::ParseCompare() {
  NodePtr left = ParseSum();
  std::string word = SkipComparison();
  if (word.empty()) return left;
  NewNode node = With(NodeKind::kCompare, "", std::move(left));
  while (!word.empty()) {
    node->operators.push_back(std::move(word));
    Add(*node, ParseSum());
    word = SkipComparison();
  }
  return node;
}

template <typename Operand>
NodePtr ExpressionParser::ParseBinary(std::initializer_list<std::string_view> words, const Operand& operand) {
  NodePtr left = operand();
  while (Now().kind == TokenKind::kOperator && std::find(words.begin(), words.end(), Now().text) != words.end()) {
    const std::string word = tokens_[at_++].text;
    NewNode node = With(NodeKind::kBinary, "", std::move(left), operand());
    node->operators = {word};
    left = std::move(node);
  }
  return left;
}

NodePtr ExpressionParser::ParseSum() {
  return ParseBinary({"+", "-"}, [this] { return ParseConcat(); });
}

NodePtr ExpressionParser::ParseConcat() {
  return ParseBinary({"~"}, [this] { return ParseProduct(); });
}

NodePtr ExpressionParser::ParseProduct() {
  return ParseBinary({"*", "/", "//", "%"}, [this] { return ParsePower(); });
}

NodePtr ExpressionParser::ParsePower() {
  return ParseBinary({"**"}, [this] { return ParseUnary(/*filters=*/true); });
}

NodePtr ExpressionParser::ParseUnary(bool filters) {
  const Level level(*this);
  NodePtr value;
  if (SkipOperator("-")) {
    value = With(NodeKind::kNegate, "", ParseUnary(false));
  } else if (SkipOperator("+")) {
    value = ParseUnary(false);
  } else {
    value = ParsePostfix(ParsePrimary());
  }
  return filters ? ParseFilters(std::move(value)) : std::move(value);
}

NodePtr ExpressionParser::ParseFilters(NodePtr value) {
  while (true) {
    if (SkipOperator("|")) {
      NewNode filter = With(NodeKind::kFilter, ExpectName("a filter's name"), std::move(value));
      if (SkipOperator("(")) ParseArguments(*filter);
      value = std::move(filter);
    } else if (SkipName("is")) {
      value = ParseTest(std::move(value));
    } else {
      return value;
    }
  }
}

NodePtr ExpressionParser::ParseTest(NodePtr value) {
  const bool negated = SkipName("not");
  NewNode test = With(NodeKind::kTest, ExpectName("a test's name"), std::move(value));
  static constexpr std::string_view kNoArgument[] = {"else", "or", "and", "is", "if", "not", "in"};
  if (SkipOperator("(")) {
    ParseArguments(*test);
  } else if (Now().kind == TokenKind::kString || Now().kind == TokenKind::kInteger || Now().kind == TokenKind::kFloat ||
             IsOperator("[") || IsOperator("{") ||
             (Now().kind == TokenKind::kName &&
              std::find(std::begin(kNoArgument), std::end(kNoArgument), Now().text) == std::end(kNoArgument))) {
    Add(*test, ParsePostfix(ParsePrimary()));
  }
  if (!negated) return test;
  return With(NodeKind::kNot, "", std::move(test));
}

NodePtr ExpressionParser::ParsePostfix(NodePtr value) {
  while (true) {
    if (SkipOperator(".")) {
      if (Now().kind == TokenKind::kInteger) {
        value = With(NodeKind::kItem, "", std::move(value), ParsePrimary());
      } else {
        value = With(NodeKind::kAttribute, ExpectName("an attribute's name"), std::move(value));
      }
    } else if (SkipOperator("[")) {
      value = ParseSubscript(std::move(value));
    } else if (SkipOperator("(")) {
      NewNode call = With(NodeKind::kCall, "", std::move(value));
      ParseArguments(*call);
      value = std::move(call);
    } else {
      return value;
    }
  }
}

NodePtr ExpressionParser::ParseSubscript(NodePtr value) {
  NodePtr parts[3];
  size_t colons = 0;
  if (!IsOperator(":")) parts[0] = ParseExpression();
  while (colons < 2 && SkipOperator(":")) {
    ++colons;
    if (!IsOperator(":") && !IsOperator("]")) parts[colons] = ParseExpression();
  }
  ExpectOperator("]");
  if (colons == 0) return With(NodeKind::kItem, "", std::move(value), std::move(parts[0]));
  NewNode slice = With(NodeKind::kSlice, "", std::move(value));
  for (NodePtr& part : parts) Add(*slice, std::move(part));
  return slice;
}

void ExpressionParser::ParseArguments(Node& node) {
  bool first = true;
  while (!SkipOperator(")")) {
    if (!first) {
      ExpectOperator(",");
      if (SkipOperator(")")) return;
    }
    first = false;
    if (IsOperator("*") || IsOperator("**")) Fail(Code::kUnsupported, "line %u: unpacked arguments", Now().line);
    if (Now().kind == TokenKind::kName && Next().kind == TokenKind::kOperator && Next().text == "=") {
      std::string name = Now().text;
      at_ += 2;
      NodePtr value = ParseExpression();
      Deepen(node, value);
      node.named.emplace_back(std::move(name), std::move(value));
    } else {
      Add(node, ParseExpression());
    }
  }
}

NodePtr ExpressionParser::ParsePrimary() {
  const Token& token = Now();
  NewNode node = New(NodeKind::kLiteral);
  if (token.kind == TokenKind::kString) {
    std::string text;
    while (Now().kind == TokenKind::kString) text += tokens_[at_++].text;
    node->literal = Value::OfWord(text);
  } else if (token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat) {
    node->literal = ReadNumber(token);
    ++at_;
  } else if (token.kind == TokenKind::kName) {
    ReadName(token.text, *node);
    ++at_;
  } else if (SkipOperator("(")) {
    return ParseBracket();
  } else if (SkipOperator("[")) {
    node->kind = NodeKind::kList;
    while (!SkipOperator("]")) {
      if (!node->children.empty()) ExpectOperator(",");
      if (SkipOperator("]")) break;
      Add(*node, ParseExpression());
    }
  } else if (SkipOperator("{")) {
    node->kind = NodeKind::kDict;
    while (!SkipOperator("}")) {
      if (!node->children.empty()) ExpectOperator(",");
      if (SkipOperator("}")) break;
      Add(*node, ParseExpression());
      ExpectOperator(":");
      Add(*node, ParseExpression());
    }
  } else {
    Unexpected("a value");
  }
  return node;
}

NodePtr ExpressionParser::ParseBracket() {
  NewNode list = New(NodeKind::kList);
  bool tuple = IsOperator(")");
  while (!SkipOperator(")")) {
    if (!list->children.empty()) {
      ExpectOperator(",");
      tuple = true;
      if (SkipOperator(")")) break;
    }
    Add(*list, ParseExpression());
  }
  if (tuple) return list;
  return std::move(list->children[0]);
}

void ExpressionParser::ReadName(const std::string& name, Node& node) {
  if (name == "true" || name == "True") {
    node.literal = Value(true);
  } else if (name == "false" || name == "False") {
    node.literal = Value(false);
  } else if (name == "none" || name == "None") {
    node.literal = Value(None{});
  } else {
    node.kind = NodeKind::kName;
    node.name = name;
  }
}

Value ExpressionParser::ReadNumber(const Token& token) {
  const char* const end = token.text.data() + token.text.size();
  if (token.kind == TokenKind::kInteger) {
    int64_t value = 0;
    const auto read = std::from_chars(token.text.data(), end, value);
    if (read.ec == std::errc() && read.ptr == end) return Value(value);
  } else {
    double value = 0;
    const auto read = std::from_chars(token.text.data(), end, value);
    if (read.ec == std::errc() && read.ptr == end) return Value(value);
  }
  Fail(Code::kCorrupt, "line %u: the number %s is out of range", token.line, Short(token.text).c_str());
}

}  // namespace moonlit::jinja
