// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/grammar.h"

#include <algorithm>
#include <new>
#include <span>

#include "runtime/text/grammar_syntax.h"
#include "runtime/text/json_schema.h"

namespace moonlit {

namespace {

// Alternatives that begin with fixed bytes share the beginnings that they have in common: a list of thousands of words is entered by the few
// bytes that they begin with, not by each of the words.
using Sequence = GrammarItem::Sequence;

bool BeginsWithBytes(const Sequence& sequence) {
  if (sequence.empty()) return false;
  const GrammarItem& first = sequence.front();
  return first.kind == GrammarItem::Kind::kBytes && first.least == 1 && first.most == 1 && !first.bytes.empty();
}

// Puts them behind the others, sorted. Once for each list: repetitions compile it many times.
void SortBeginnings(std::vector<Sequence>& alternatives) {
  const auto begin = std::stable_partition(alternatives.begin(), alternatives.end(),
                                           [](const Sequence& one) { return !BeginsWithBytes(one); });
  std::stable_sort(begin, alternatives.end(),
                   [](const Sequence& a, const Sequence& b) { return a.front().bytes < b.front().bytes; });
  for (Sequence& sequence : alternatives) {
    for (GrammarItem& item : sequence) SortBeginnings(item.alternatives);
  }
}

}  // namespace

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
    for (GrammarRule& rule : syntax_.rules) SortBeginnings(rule.alternatives);
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

  // Every alternative costs an instruction, so that what is written out is bounded however little of it there is.
  class Choices {
   public:
    explicit Choices(GrammarCompiler& compiler) : compiler_(compiler) {}
    void Add(uint32_t begin) {
      entry_ = empty_ ? begin : compiler_.Emit({GrammarOp::kSplit, begin, entry_});
      empty_ = false;
    }
    uint32_t entry() const { return entry_; }

   private:
    GrammarCompiler& compiler_;
    uint32_t entry_ = 0;
    bool empty_ = true;
  };

  uint32_t Alternatives(const std::vector<Sequence>& alternatives, uint32_t next) {
    if (alternatives.empty()) return next;
    const auto begin = std::find_if(alternatives.begin(), alternatives.end(), BeginsWithBytes);
    Choices choices(*this);
    if (begin != alternatives.end()) choices.Add(Beginnings({begin, alternatives.end()}, 0, next));
    for (auto one = begin; one != alternatives.begin() && !full_;) choices.Add(Items(*--one, 0, next));
    return choices.entry();
  }

  // Sorted alternatives that have their first `shared` bytes in common, from behind these. As deep as there are beginnings of others
  // within one of them, which the size of a grammar's text bounds by 1,500.
  uint32_t Beginnings(std::span<const Sequence> alternatives, size_t shared, uint32_t next) {
    const std::string& first = alternatives.front().front().bytes;
    const std::string& last = alternatives.back().front().bytes;
    size_t common = shared;
    while (common < first.size() && common < last.size() && first[common] == last[common]) ++common;
    Choices choices(*this);
    while (!alternatives.empty() && !full_) {
      const std::string& bytes = alternatives.back().front().bytes;
      if (bytes.size() == common) {
        choices.Add(Items(alternatives.back(), 1, next));
        alternatives = alternatives.first(alternatives.size() - 1);
        continue;
      }
      const auto same = std::partition_point(alternatives.begin(), alternatives.end(), [&](const Sequence& one) {
        const std::string& other = one.front().bytes;
        return other.size() == common ||
               static_cast<unsigned char>(other[common]) < static_cast<unsigned char>(bytes[common]);
      });
      const auto kept = static_cast<size_t>(same - alternatives.begin());
      choices.Add(alternatives.size() - kept == 1 ? Bytes(bytes, common, Items(alternatives.back(), 1, next))
                                                  : Beginnings(alternatives.subspan(kept), common, next));
      alternatives = alternatives.first(kept);
    }
    return Bytes(std::string_view(first).substr(0, common), shared, choices.entry());
  }

  uint32_t Items(const Sequence& sequence, size_t from, uint32_t next) {
    for (size_t i = sequence.size(); i-- > from && !full_;) next = Repeated(sequence[i], next);
    return next;
  }

  uint32_t Bytes(std::string_view bytes, size_t from, uint32_t next) {
    for (size_t i = bytes.size(); i-- > from && !full_;)
      next = Emit({GrammarOp::kByte, static_cast<unsigned char>(bytes[i]), next});
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
        return Bytes(item.bytes, 0, next);
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
