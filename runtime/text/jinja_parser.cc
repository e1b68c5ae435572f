// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja_parser.h"

#include <algorithm>
#include <initializer_list>

#include "runtime/text/jinja_expressions.h"

namespace moonlit::jinja {
namespace {

class Parser : private ExpressionParser {
 public:
  explicit Parser(std::string_view source) : ExpressionParser(source) {}

  NodePtr Run() {
    NodePtr block = ParseBlock({});
    if (Now().kind != TokenKind::kEnd) Unexpected("the end of the template");
    return block;
  }

 private:
  // Up to one of `ends` behind {% (which is left to the caller) or the template's end.
  NodePtr ParseBlock(std::initializer_list<std::string_view> ends) {
    const Level level(*this);
    NewNode block = New(NodeKind::kBlock);
    while (Now().kind != TokenKind::kEnd) {
      if (Now().kind == TokenKind::kText) {
        NewNode text = New(NodeKind::kText);
        text->literal = Value::OfWord(Now().text);
        ++at_;
        Add(*block, std::move(text));
      } else if (Now().kind == TokenKind::kOutputBegin) {
        ++at_;
        Add(*block, With(NodeKind::kOutput, "", ParseTuple()));
        if (Now().kind != TokenKind::kOutputEnd) Unexpected("}}");
        ++at_;
      } else {
        const Token& word = Next();
        if (word.kind == TokenKind::kName && std::find(ends.begin(), ends.end(), word.text) != ends.end()) return block;
        ++at_;
        if (NodePtr statement = ParseStatement()) Add(*block, std::move(statement));
      }
    }
    return block;
  }
  // {% end %} behind a block.
  void SkipEnd(const char* word) {
    if (Now().kind == TokenKind::kBlockBegin) ++at_;
    if (!SkipName(word)) Unexpected(word);
    ExpectBlockEnd();
  }

  NodePtr ParseStatement() {
    const std::string word = ExpectName("a statement");
    if (word == "if") return ParseIf();
    if (word == "for") return ParseFor();
    if (word == "set") return ParseSet();
    if (word == "macro") return ParseMacro();
    if (word == "break" || word == "continue") {
      if (loops_ == 0) Fail(Code::kCorrupt, "line %u: %s outside a loop", Now().line, word.c_str());
      ExpectBlockEnd();
      return New(word == "break" ? NodeKind::kBreak : NodeKind::kContinue);
    }
    // transformers' mark for what an assistant wrote: its inside counts like any text.
    if (word == "generation") {
      ExpectBlockEnd();
      NodePtr block = ParseBlock({"endgeneration"});
      SkipEnd("endgeneration");
      return block;
    }
    Fail(Code::kUnsupported,
         "line %u: the statement \"%s\"; known are if, for, set, macro, break, continue, generation", Now().line,
         Short(word).c_str());
  }

  NodePtr ParseIf() {
    NewNode node = New(NodeKind::kIf);
    Add(*node, ParseTuple());
    while (true) {
      ExpectBlockEnd();
      Add(*node, ParseBlock({"elif", "else", "endif"}));
      if (Now().kind == TokenKind::kBlockBegin) ++at_;
      if (SkipName("elif")) {
        Add(*node, ParseTuple());
      } else if (SkipName("else")) {
        ExpectBlockEnd();
        Add(*node, ParseBlock({"endif"}));
        SkipEnd("endif");
        return node;
      } else {
        SkipEnd("endif");
        return node;
      }
    }
  }

  NodePtr ParseFor() {
    NewNode node = New(NodeKind::kFor);
    node->names = ParseTargets();
    if (!SkipName("in")) Unexpected("in");
    Add(*node, ParseTuple(/*with_condition=*/false));
    Add(*node, SkipName("if") ? ParseExpression() : nullptr);
    if (IsName("recursive")) Fail(Code::kUnsupported, "line %u: a recursive loop", Now().line);
    ExpectBlockEnd();
    ++loops_;
    Add(*node, ParseBlock({"else", "endfor"}));
    --loops_;
    if (Now().kind == TokenKind::kBlockBegin && Next().text == "else") {
      at_ += 2;
      ExpectBlockEnd();
      Add(*node, ParseBlock({"endfor"}));
    } else {
      node->children.push_back(nullptr);
    }
    SkipEnd("endfor");
    return node;
  }

  std::vector<std::string> ParseTargets() {
    const bool bracket = SkipOperator("(");
    std::vector<std::string> names = {ExpectName("a variable's name")};
    while (SkipOperator(",")) names.push_back(ExpectName("a variable's name"));
    if (bracket) ExpectOperator(")");
    return names;
  }

  NodePtr ParseSet() {
    NewNode node = New(NodeKind::kSet);
    node->names = ParseTargets();
    if (SkipOperator(".")) {
      node->name = node->names[0];
      node->names = {ExpectName("a variable's name")};
    }
    if (SkipOperator("=")) {
      Add(*node, ParseTuple());
      ExpectBlockEnd();
      return node;
    }
    if (IsOperator("|")) Fail(Code::kUnsupported, "line %u: a filter on a set block", Now().line);
    if (node->names.size() != 1 || !node->name.empty()) Unexpected("=");
    ExpectBlockEnd();
    node->kind = NodeKind::kSetBlock;
    Add(*node, ParseBlock({"endset"}));
    SkipEnd("endset");
    return node;
  }

  NodePtr ParseMacro() {
    NewNode node = New(NodeKind::kMacro, ExpectName("a macro's name"));
    std::vector<NodePtr> defaults;
    ExpectOperator("(");
    while (!SkipOperator(")")) {
      if (!node->names.empty()) ExpectOperator(",");
      node->names.push_back(ExpectName("a parameter's name"));
      defaults.push_back(SkipOperator("=") ? ParseExpression() : nullptr);
    }
    ExpectBlockEnd();
    const int outer_loops = loops_;
    loops_ = 0;
    Add(*node, ParseBlock({"endmacro"}));
    loops_ = outer_loops;
    SkipEnd("endmacro");
    for (NodePtr& value : defaults) Add(*node, std::move(value));
    return node;
  }

  int loops_ = 0;  // around the statement
};

}  // namespace

NodePtr Parse(std::string_view source) { return Parser(source).Run(); }

}  // namespace moonlit::jinja
