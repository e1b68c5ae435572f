// SPDX-License-Identifier: Apache-2.0
// Random grammars, which print themselves and can be read plainly, by backtracking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/utf8.h"

namespace moonlit {

struct Node {
  enum Kind { kText, kClass, kRule, kGroup } kind = kText;
  std::u32string text;  // kText; kClass: its characters
  bool negated = false;
  size_t rule = 0;
  std::vector<std::vector<Node>> alternatives;
  size_t least = 1, most = 1;
};
using Alternatives = std::vector<std::vector<Node>>;

inline const std::u32string kLetters = U"abé好";
constexpr size_t kNoMost = 1000;

inline std::string Utf8(const std::u32string& text) {
  std::string out;
  for (const char32_t c : text) Utf8Append(c, &out);
  return out;
}

// Rules refer to later ones alone, but behind a character to any: none begins with itself.
class RandomGrammar {
 public:
  explicit RandomGrammar(uint32_t seed) : random_(seed) {
    rules_.resize(1 + Pick(4));
    for (size_t i = 0; i < rules_.size(); ++i) rules_[i] = Choices(i, 2);
  }

  std::string Print() const {
    std::string out;
    for (size_t i = 0; i < rules_.size(); ++i) out += Name(i) + " ::= " + Print(rules_[i]) + "\n";
    return out;
  }

  // All positions where a reading of `text` from `at` may stand at the end; false where it ran out of work.
  bool Whole(const std::u32string& text) {
    work_ = 20000;
    bool whole = false;
    Read(rules_[0], text, 0, [&](size_t end) { whole = whole || end == text.size(); });
    return whole;
  }
  bool worked_out() const { return work_ == 0; }

  std::u32string Word() {
    std::u32string word;
    for (size_t n = Pick(7); n > 0; --n) word += kLetters[Pick(kLetters.size())];
    return word;
  }

 private:
  size_t Pick(size_t n) { return random_() % n; }
  static std::string Name(size_t rule) { return rule == 0 ? "root" : "r-" + std::to_string(rule); }

  Alternatives Choices(size_t rule, int depth) {
    Alternatives out(1 + Pick(3));
    for (auto& sequence : out) {
      bool behind_a_character = false;
      for (size_t n = Pick(4); n > 0; --n) sequence.push_back(Item(rule, depth, &behind_a_character));
    }
    return out;
  }

  Node Item(size_t rule, int depth, bool* behind) {
    Node node;
    node.kind = static_cast<Node::Kind>(Pick(4));
    if (node.kind == Node::kGroup && depth == 0) node.kind = Node::kClass;
    if (node.kind == Node::kRule && !*behind && rule + 1 >= rules_.size()) node.kind = Node::kText;
    switch (node.kind) {
      case Node::kText:
        for (size_t n = Pick(3); n > 0; --n) node.text += kLetters[Pick(kLetters.size())];
        break;
      case Node::kClass:
        for (size_t n = 1 + Pick(2); n > 0; --n) node.text += kLetters[Pick(kLetters.size())];
        node.negated = Pick(3) == 0;
        break;
      case Node::kRule:
        node.rule = *behind ? Pick(rules_.size()) : rule + 1 + Pick(rules_.size() - rule - 1);
        break;
      case Node::kGroup:
        // What stands before the group does not help inside a repetition, so nothing counts as before.
        node.alternatives = Choices(rule, depth - 1);
        break;
    }
    const size_t repeats = Pick(8);
    if (repeats < 5) {
      static constexpr size_t kLeast[] = {0, 0, 1, 1, 2}, kMost[] = {1, kNoMost, kNoMost, 3, 2};
      node.least = kLeast[repeats];
      node.most = kMost[repeats];
    }
    *behind =
        *behind || (node.least > 0 && (node.kind == Node::kClass || (node.kind == Node::kText && !node.text.empty())));
    return node;
  }

  std::string Print(const Alternatives& alternatives) const {
    std::string out;
    for (size_t i = 0; i < alternatives.size(); ++i) {
      if (i > 0) out += " | ";
      if (alternatives[i].empty()) out += "\"\"";
      for (const Node& node : alternatives[i]) out += Print(node) + " ";
    }
    return out;
  }
  std::string Print(const Node& node) const {
    std::string out;
    if (node.kind == Node::kText) out = "\"" + Utf8(node.text) + "\"";
    if (node.kind == Node::kClass) out = (node.negated ? "[^" : "[") + Utf8(node.text) + "]";
    if (node.kind == Node::kRule) out = Name(node.rule);
    if (node.kind == Node::kGroup) out = "(" + Print(node.alternatives) + ")";
    if (node.least == 1 && node.most == 1) return out;
    if (node.most == kNoMost) return out + (node.least == 0 ? "*" : "+");
    return out + "{" + std::to_string(node.least) + "," + std::to_string(node.most) + "}";
  }

  using Then = std::function<void(size_t)>;
  bool Spend() { return work_ > 0 && --work_ > 0; }

  void Read(const Alternatives& alternatives, const std::u32string& text, size_t at, const Then& then) {
    for (const auto& sequence : alternatives) ReadFrom(sequence, 0, text, at, then);
  }
  void ReadFrom(const std::vector<Node>& sequence, size_t i, const std::u32string& text, size_t at, const Then& then) {
    if (i == sequence.size()) return then(at);
    ReadTimes(sequence[i], 0, text, at, [&](size_t end) { ReadFrom(sequence, i + 1, text, end, then); });
  }
  void ReadTimes(const Node& node, size_t done, const std::u32string& text, size_t at, const Then& then) {
    if (!Spend()) return;
    if (done >= node.least) then(at);
    if (done >= node.most) return;
    ReadOnce(node, text, at, [&](size_t end) {
      // Nothing, read once more than needed, leads nowhere new.
      if (end == at && done >= node.least) return;
      ReadTimes(node, done + 1, text, end, then);
    });
  }
  void ReadOnce(const Node& node, const std::u32string& text, size_t at, const Then& then) {
    switch (node.kind) {
      case Node::kText:
        if (text.compare(at, node.text.size(), node.text) == 0) then(at + node.text.size());
        break;
      case Node::kClass:
        if (at < text.size() && (node.text.find(text[at]) != std::u32string::npos) != node.negated) then(at + 1);
        break;
      case Node::kRule:
        Read(rules_[node.rule], text, at, then);
        break;
      case Node::kGroup:
        Read(node.alternatives, text, at, then);
        break;
    }
  }

  std::mt19937 random_;
  std::vector<Alternatives> rules_;
  uint64_t work_ = 0;
};

}  // namespace moonlit
