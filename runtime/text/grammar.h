// SPDX-License-Identifier: Apache-2.0
// Grammars that a generated text has to follow, in llama.cpp's notation GBNF (its grammars/README.md):
//
//   root   ::= "yes" | "no" | list
//   list   ::= "[" [0-9]+ ("," [0-9]+)* "]"     # ( ) groups; * + ? {2} {2,} {2,5} repeat; . is any character; [^...] all others
//
// A grammar is compiled to a program for a machine with a stack (grammar_matcher.h) over bytes: characters are their UTF-8. A rule that
// begins with itself, also through others, is refused. Grammars are untrusted: text, nesting, rules and program are bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/character_class.h"

namespace moonlit {

enum class GrammarOp : uint8_t {
  kByte,    // takes the byte `operand`
  kClass,   // takes a character of class `operand`
  kSplit,   // goes on at `next` and at `operand`
  kCall,    // goes on at `operand` (a rule's entry), at the rule's end at `next`
  kReturn,  // the rule's end
};
struct GrammarInstruction {
  GrammarOp op;
  uint32_t operand;
  uint32_t next;
};

// Immutable; any thread.
class Grammar {
 public:
  // kInvalidArgument with line and column: no GBNF, a rule that is missing, given twice, or begins with itself; kExhausted: too large.
  static Result<Grammar> Parse(std::string_view text, std::string_view root = "root");
  // A grammar of the JSON texts that a schema allows, or some of them: members in the schema's order, only those it names.
  // kInvalidArgument: no JSON; kUnsupported: a keyword that would be needed and is not known, with its JSON pointer
  // (json_schema.h lists those that are).
  static Result<Grammar> FromJsonSchema(std::string_view schema);

  const GrammarInstruction& at(uint32_t pc) const { return program_[pc]; }
  const CharacterClass& character_class(uint32_t index) const { return classes_[index]; }
  uint32_t entry() const { return entry_; }
  size_t size() const { return program_.size(); }

 private:
  friend class GrammarCompiler;
  Grammar() = default;
  std::vector<GrammarInstruction> program_;
  std::vector<CharacterClass> classes_;
  uint32_t entry_ = 0;
};

}  // namespace moonlit
