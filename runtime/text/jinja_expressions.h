// SPDX-License-Identifier: Apache-2.0
// The words of a template and how expressions are read from them; statements are jinja_parser.cc's.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/jinja_lexer.h"
#include "runtime/text/jinja_syntax.h"

namespace moonlit::jinja {

class ExpressionParser {
 protected:
  using NewNode = std::unique_ptr<Node>;

  explicit ExpressionParser(std::string_view source) : tokens_(Lex(source)) {}

  // Counts how deep the parser itself stands.
  class Level {
   public:
    explicit Level(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.level_ > kMostSyntaxDepth) parser_.TooDeep();
    }
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

  const Token& Now() const { return tokens_[at_]; }
  const Token& Next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool IsOperator(std::string_view word) const { return Now().kind == TokenKind::kOperator && Now().text == word; }
  bool IsName(std::string_view word) const { return Now().kind == TokenKind::kName && Now().text == word; }
  bool Skip(TokenKind kind, std::string_view word) {
    if (Now().kind != kind || Now().text != word) return false;
    ++at_;
    return true;
  }
  bool SkipOperator(std::string_view word) { return Skip(TokenKind::kOperator, word); }
  bool SkipName(std::string_view word) { return Skip(TokenKind::kName, word); }

  [[noreturn]] void TooDeep() const {
    Fail(Code::kExhausted, "line %u: nested more than %d times", Now().line, kMostSyntaxDepth);
  }
  [[noreturn]] void Unexpected(const char* expected) const {
    static constexpr const char* kKinds[] = {"text", "{{", "}}", "{%", "%}", "", "a string", "", "", "", "the end"};
    const Token& token = Now();
    const char* kind = kKinds[static_cast<size_t>(token.kind)];
    Fail(Code::kCorrupt, "line %u: expected %s, found %s", token.line, expected,
         *kind != '\0' ? kind : Short(token.text).c_str());
  }
  void ExpectOperator(const char* word) {
    if (!SkipOperator(word)) Unexpected(word);
  }
  void ExpectBlockEnd() {
    if (Now().kind != TokenKind::kBlockEnd) Unexpected("%}");
    ++at_;
  }
  std::string ExpectName(const char* what) {
    if (Now().kind != TokenKind::kName) Unexpected(what);
    return tokens_[at_++].text;
  }

  NewNode New(NodeKind kind, std::string name = "") const {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->line = Now().line;
    node->name = std::move(name);
    return node;
  }
  void Deepen(Node& node, const NodePtr& child) const {
    if (child == nullptr) return;
    node.depth = std::max(node.depth, child->depth + 1);
    if (node.depth > kMostSyntaxDepth) TooDeep();
  }
  void Add(Node& node, NodePtr child) const {
    Deepen(node, child);
    node.children.push_back(std::move(child));
  }
  NewNode With(NodeKind kind, std::string name, NodePtr first, NodePtr second = nullptr) const {
    NewNode node = New(kind, std::move(name));
    node->line = first->line;
    Add(*node, std::move(first));
    if (second != nullptr) Add(*node, std::move(second));
    return node;
  }

  // Several expressions with commas between them are a list. with_condition: "a if b else c" is one, as nearly everywhere.
  NodePtr ParseTuple(bool with_condition = true);
  NodePtr ParseExpression();

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int level_ = 0;

 private:
  NodePtr ParseOr();
  NodePtr ParseAnd();
  NodePtr ParseNot();
  // The operator that stands here, taken; empty if it is none of comparison.
  std::string SkipComparison();
  NodePtr ParseCompare();
  template <typename Operand>
  NodePtr ParseBinary(std::initializer_list<std::string_view> words, const Operand& operand);
  NodePtr ParseSum();
  NodePtr ParseConcat();
  NodePtr ParseProduct();
  NodePtr ParsePower();
  NodePtr ParseUnary(bool filters);
  NodePtr ParseFilters(NodePtr value);
  NodePtr ParseTest(NodePtr value);
  NodePtr ParsePostfix(NodePtr value);
  NodePtr ParseSubscript(NodePtr value);
  // Behind "(" up to ")".
  void ParseArguments(Node& node);
  NodePtr ParsePrimary();
  // Behind "(": an expression, or a tuple, which is a list here.
  NodePtr ParseBracket();
  static void ReadName(const std::string& name, Node& node);
  static Value ReadNumber(const Token& token);
};

}  // namespace moonlit::jinja
