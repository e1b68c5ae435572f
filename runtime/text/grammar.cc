// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/grammar.h"

#include <algorithm>
#include <new>

#include "runtime/text/grammar_syntax.h"
#include "runtime/text/json_schema.h"

namespace moonlit {

// From the tree to the program, from each sequence's end to its beginning: an item is compiled for what follows it.
class GrammarCompiler {
 public:
  explicit GrammarCompiler(GrammarSyntax syntax) : syntax_(std::move(syntax)) {}

  Result<Grammar> Run(std::string_view root) {
    const auto found = std::find_if(syntax_.rules.begin(), syntax_.rules.end(),
                                    [&](const GrammarRule& rule) { return rule.name == root; });
    if (found == syntax_.rules.end()) {
      return Errorf(Code::kInvalidArgument, "grammar: expected a rule named \"%.64s\", where a text begins",
                    std::string(root).c_str());
    }
    std::vector<uint32_t> entries;
    for (const GrammarRule& rule : syntax_.rules) {
      const uint32_t end = Emit({GrammarOp::kReturn, 0, 0});
      entries.push_back(Alternatives(rule.alternatives, end));
      if (full_) return FullAt(rule);
    }
    for (GrammarInstruction& instruction : grammar_.program_) {
      if (instruction.op == GrammarOp::kCall) instruction.operand = entries[instruction.operand];
    }
    grammar_.entry_ = entries[static_cast<size_t>(found - syntax_.rules.begin())];
    grammar_.classes_ = std::move(syntax_.classes);
    return std::move(grammar_);
  }

 private:
  static constexpr size_t kMostInstructions = size_t{1} << 20;

  static Status FullAt(const GrammarRule& rule) {
    return Errorf(
        Code::kExhausted,
        "grammar, line %u, column %u: at the rule \"%.64s\" the grammar takes more than %zu steps, repetitions "
        "written out",
        rule.line, rule.column, rule.name.c_str(), kMostInstructions);
  }

  uint32_t Emit(GrammarInstruction instruction) {
    if (grammar_.program_.size() >= kMostInstructions) {
      full_ = true;
      return 0;
    }
    grammar_.program_.push_back(instruction);
    return static_cast<uint32_t>(grammar_.program_.size() - 1);
  }

  uint32_t Alternatives(const std::vector<GrammarItem::Sequence>& alternatives, uint32_t next) {
    uint32_t entry = next;
    for (size_t i = alternatives.size(); i-- > 0 && !full_;) {
      const uint32_t begin = Sequence(alternatives[i], next);
      entry = i + 1 == alternatives.size() ? begin : Emit({GrammarOp::kSplit, begin, entry});
    }
    return entry;
  }

  uint32_t Sequence(const GrammarItem::Sequence& sequence, uint32_t next) {
    for (size_t i = sequence.size(); i-- > 0 && !full_;) next = Repeated(sequence[i], next);
    return next;
  }

  uint32_t Repeated(const GrammarItem& item, uint32_t next) {
    uint32_t entry = next;
    uint32_t copies = item.least;
    if (item.most == kNoLimit) {
      const uint32_t loop = Emit({GrammarOp::kSplit, next, next});
      const uint32_t body = Once(item, loop);
      if (full_) return next;
      grammar_.program_[loop].operand = body;
      // "a+" is entered at its body, which goes on to the loop.
      entry = copies > 0 ? body : loop;
      if (copies > 0) --copies;
    } else {
      for (uint32_t i = item.least; i < item.most && !full_; ++i) {
        const uint32_t body = Once(item, entry);
        if (body == entry) break;  // nothing, however often
        entry = Emit({GrammarOp::kSplit, body, next});
      }
    }
    for (uint32_t i = 0; i < copies && !full_; ++i) {
      const uint32_t body = Once(item, entry);
      if (body == entry) break;
      entry = body;
    }
    return entry;
  }

  uint32_t Once(const GrammarItem& item, uint32_t next) {
    switch (item.kind) {
      case GrammarItem::Kind::kBytes:
        for (size_t i = item.bytes.size(); i-- > 0 && !full_;)
          next = Emit({GrammarOp::kByte, static_cast<unsigned char>(item.bytes[i]), next});
        return next;
      case GrammarItem::Kind::kClass:
        return Emit({GrammarOp::kClass, item.index, next});
      case GrammarItem::Kind::kRule:
        return Emit({GrammarOp::kCall, item.index, next});
      case GrammarItem::Kind::kGroup:
        return Alternatives(item.alternatives, next);
    }
    return next;
  }

  GrammarSyntax syntax_;
  Grammar grammar_;
  bool full_ = false;
};

Result<Grammar> Grammar::Parse(std::string_view text, std::string_view root) try {
  MOONLIT_ASSIGN_OR_RETURN(GrammarSyntax syntax, ParseGrammar(text));
  return GrammarCompiler(std::move(syntax)).Run(root);
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "grammar: no memory");
}

Result<Grammar> Grammar::FromJsonSchema(std::string_view schema) try {
  MOONLIT_ASSIGN_OR_RETURN(const std::string text, JsonSchemaToGrammar(schema));
  return Parse(text);
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "grammar: no memory");
}

}  // namespace moonlit
