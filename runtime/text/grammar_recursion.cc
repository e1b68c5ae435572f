// SPDX-License-Identifier: Apache-2.0
// Which rules can be empty, and which can begin with themselves.
#include "runtime/text/grammar_syntax.h"

namespace moonlit {
namespace {

using Sequence = GrammarItem::Sequence;

// Passes over all rules until nothing changes; real grammars take a few, one made to take thousands is refused.
constexpr int kMostPasses = 200;

class LeftRecursion {
 public:
  explicit LeftRecursion(const GrammarSyntax& syntax)
      : syntax_(syntax), empty_(syntax.rules.size()), firsts_(syntax.rules.size()) {}

  Status Check() {
    bool changed = true;
    for (int pass = 0; changed; ++pass) {
      if (pass == kMostPasses)
        return Status(Code::kExhausted, "grammar: the rules depend on each other in too long a chain");
      changed = false;
      for (size_t i = syntax_.rules.size(); i-- > 0;) {
        if (!empty_[i] && CanBeEmpty(syntax_.rules[i].alternatives)) empty_[i] = changed = true;
      }
    }
    for (size_t i = 0; i < syntax_.rules.size(); ++i) CollectFirsts(syntax_.rules[i].alternatives, &firsts_[i]);
    return FindCircle();
  }

 private:
  bool CanBeEmpty(const GrammarItem& item) const {
    if (item.least == 0) return true;
    switch (item.kind) {
      case GrammarItem::Kind::kBytes:
        return item.bytes.empty();
      case GrammarItem::Kind::kClass:
        return false;
      case GrammarItem::Kind::kRule:
        return empty_[item.index];
      case GrammarItem::Kind::kGroup:
        return CanBeEmpty(item.alternatives);
    }
    return false;
  }
  bool CanBeEmpty(const std::vector<Sequence>& alternatives) const {
    for (const Sequence& sequence : alternatives) {
      bool empty = true;
      for (const GrammarItem& item : sequence) empty = empty && CanBeEmpty(item);
      if (empty) return true;
    }
    return false;
  }

  // Rules that may stand at the beginning.
  void CollectFirsts(const std::vector<Sequence>& alternatives, std::vector<uint32_t>* firsts) const {
    for (const Sequence& sequence : alternatives) {
      for (const GrammarItem& item : sequence) {
        if (item.kind == GrammarItem::Kind::kRule) firsts->push_back(item.index);
        if (item.kind == GrammarItem::Kind::kGroup) CollectFirsts(item.alternatives, firsts);
        if (!CanBeEmpty(item)) break;
      }
    }
  }

  Status FindCircle() const {
    enum : uint8_t { kNew, kOpen, kDone };
    std::vector<uint8_t> marks(syntax_.rules.size(), kNew);
    std::vector<std::pair<uint32_t, size_t>> path;  // rule, how many of its firsts were looked at
    for (uint32_t start = 0; start < marks.size(); ++start) {
      if (marks[start] == kNew) path.emplace_back(start, 0);
      while (!path.empty()) {
        auto& [rule, looked] = path.back();
        marks[rule] = kOpen;
        if (looked == firsts_[rule].size()) {
          marks[rule] = kDone;
          path.pop_back();
          continue;
        }
        const uint32_t next = firsts_[rule][looked++];
        if (marks[next] == kOpen) {
          const GrammarRule& found = syntax_.rules[next];
          return Errorf(
              Code::kInvalidArgument,
              "grammar, line %u, column %u: the rule \"%.64s\" can begin with itself; let it end with itself, or "
              "repeat by *",
              found.line, found.column, found.name.c_str());
        }
        if (marks[next] == kNew) path.emplace_back(next, 0);
      }
    }
    return Status();
  }

  const GrammarSyntax& syntax_;
  std::vector<bool> empty_;
  std::vector<std::vector<uint32_t>> firsts_;
};

}  // namespace

Status CheckLeftRecursion(const GrammarSyntax& syntax) { return LeftRecursion(syntax).Check(); }

}  // namespace moonlit
