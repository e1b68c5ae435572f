// SPDX-License-Identifier: Apache-2.0
// A grammar's text as a tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/character_class.h"

namespace moonlit {

inline constexpr size_t kMostGrammarBytes = size_t{1} << 20;
inline constexpr size_t kMostGrammarRules = 8192;
inline constexpr int kMostGrammarDepth = 100;          // of groups within groups
inline constexpr uint32_t kMostRepetitions = 1000000;  // the program's size says what is possible
inline constexpr uint32_t kNoLimit = UINT32_MAX;

struct GrammarItem {
  enum class Kind { kBytes, kClass, kRule, kGroup };
  using Sequence = std::vector<GrammarItem>;
  Kind kind;
  uint32_t line = 0, column = 0;       // from 1
  uint32_t least = 1, most = 1;        // repetitions; most may be kNoLimit
  std::string bytes;                   // kBytes
  uint32_t index = 0;                  // kClass: of the classes; kRule: of the rules
  std::vector<Sequence> alternatives;  // kGroup
};

struct GrammarRule {
  std::string name;
  uint32_t line = 0, column = 0;  // where it is first named
  bool defined = false;
  std::vector<GrammarItem::Sequence> alternatives;
};

struct GrammarSyntax {
  std::vector<GrammarRule> rules;
  std::vector<CharacterClass> classes;
};

// kInvalidArgument with line and column; kExhausted beyond the bounds above. Every rule that is named is defined, and none begins with
// itself.
Result<GrammarSyntax> ParseGrammar(std::string_view text);

// kInvalidArgument: the rule that begins with itself.
Status CheckLeftRecursion(const GrammarSyntax& syntax);

}  // namespace moonlit
