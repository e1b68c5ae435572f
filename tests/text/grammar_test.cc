// SPDX-License-Identifier: Apache-2.0
// Grammars accept what they say and nothing else: written cases, random grammars against a plain backtracking reading of them, and the
// mask of tokens against every token tried by itself.
#include "runtime/text/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "runtime/text/byte_alphabet.h"
#include "runtime/text/grammar_mask.h"
#include "runtime/text/grammar_matcher.h"
#include "runtime/text/grammar_syntax.h"
#include "runtime/text/utf8.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/slowed.h"

namespace moonlit {
namespace {

using ::testing::HasSubstr;

enum class Verdict { kRefused, kBegins, kWhole };

Verdict Judge(const Grammar& grammar, std::string_view text) {
  auto matcher = GrammarMatcher::Create(grammar);
  EXPECT_TRUE(matcher.ok()) << matcher.status().ToString();
  for (; !text.empty(); text.remove_prefix(std::min<size_t>(text.size(), 1000))) {
    if (!matcher->Take(text.substr(0, 1000)).ok()) return Verdict::kRefused;
    matcher->Compact();
  }
  return matcher->MayEnd(matcher->state()) ? Verdict::kWhole : Verdict::kBegins;
}

struct Case {
  std::string grammar;
  std::vector<std::string> whole, begins, refused;
};

TEST(Grammar, AcceptsWhatItSays) {
  const std::vector<Case> cases = {
      {"root ::= \"a\" | \"bc\"", {"a", "bc"}, {"", "b"}, {"ab", "c", "aa"}},
      {"root ::= \"\"", {""}, {}, {"a"}},
      {"root ::= [a-c]+ [0-9]?", {"a", "abcabc", "c7"}, {""}, {"7", "d", "a77"}},
      {"root ::= [^a-z]*",
       {"", "A", "é", "😀", "\n"},
       {"\xC3", "\xF0\x9F\x98"},
       {"a", "Aa", "\xFF", "\xC0\x80", "\xED\xA0\x80"}},
      {"root ::= . \"!\"", {"x!", "好!", "\n!"}, {"x", "\xE5\xA5"}, {"!x", "xx", "\xE5!"}},
      {"root ::= \"x\"{3}", {"xxx"}, {"", "xx"}, {"xxxx", "y"}},
      {"root ::= \"x\"{2,}", {"xx", "xxxxxx"}, {"x"}, {"y"}},
      {"root ::= \"x\"{,2}", {"", "x", "xx"}, {}, {"xxx"}},
      {"root ::= \"x\"{1,3} \"y\"", {"xy", "xxy", "xxxy"}, {"xxx"}, {"y", "xxxxy"}},
      {"root ::= (\"ab\" | \"a\") \"b\"?", {"a", "ab", "abb"}, {""}, {"b", "abbb"}},
      {"root ::= \"[\" (root (\",\" root)*)? \"]\"", {"[]", "[[],[[]]]"}, {"[", "[[],"}, {"]", "[],", "[,]"}},
      {"root ::= \"a\" root | \"b\"", {"b", "aaaab"}, {"aaaa"}, {"ba", "c"}},
      {"root ::= (\"\" | \"a\"*)* \"b\"", {"b", "aaab"}, {"a"}, {"c"}},
      {"root ::= thing | thing thing\nthing ::= \"a\"? # a comment\n\n# another\n", {"", "a", "aa"}, {}, {"aaa"}},
      {"root ::=\n  \"a\"\n  | \"b\" |\n  (\n \"c\" # x\n \"d\" )\n", {"a", "b", "cd"}, {"c"}, {"ab", "d"}},
      {"root ::= \"\\x41\\u597d\\U0001F600\\n\\\"\\\\\" [\\]\\-x]",
       {"A好😀\n\"\\]", "A好😀\n\"\\-", "A好😀\n\"\\x"},
       {"A好"},
       {"A好😀\n\"\\a"}},
      {"root ::= [a-]+ [-a] [^\\x00-\\x1F]", {"a-a", "--b"}, {"a", "-a"}, {"b", "a-\n"}},
      {"root ::= [\\u4e00-\\u9fff]{2} [\\U0001F600-\\U0001F64F]", {"好人😀"}, {"好", "好人\xF0\x9F"}, {"好人🚀", "aa"}},
      {"root ::= (\"a\"+ \"b\"+)+", {"ab", "aabbab"}, {"a", "aba"}, {"b", "ac"}},
      {"root ::= e\ne ::= t (\"+\" t)*\nt ::= \"(\" e \")\" | [0-9]+",
       {"1", "(1+2)+3", "((7))"},
       {"(1", "1+"},
       {"+1", "1)"}},
  };
  for (const Case& one : cases) {
    auto grammar = Grammar::Parse(one.grammar);
    ASSERT_TRUE(grammar.ok()) << one.grammar << "\n" << grammar.status().ToString();
    for (const std::string& text : one.whole)
      EXPECT_EQ(Judge(*grammar, text), Verdict::kWhole) << one.grammar << "\n" << text;
    for (const std::string& text : one.begins)
      EXPECT_EQ(Judge(*grammar, text), Verdict::kBegins) << one.grammar << "\n" << text;
    for (const std::string& text : one.refused)
      EXPECT_EQ(Judge(*grammar, text), Verdict::kRefused) << one.grammar << "\n" << text;
  }
}

TEST(Grammar, BeginsAtTheRuleThatIsNamed) {
  auto grammar = Grammar::Parse("root ::= \"a\"\nother ::= \"b\"", "other");
  ASSERT_TRUE(grammar.ok());
  EXPECT_EQ(Judge(*grammar, "b"), Verdict::kWhole);
  EXPECT_EQ(Judge(*grammar, "a"), Verdict::kRefused);
}

std::string Repeated(const std::string& text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

TEST(Grammar, FaultsSayWhereAndWhat) {
  const struct {
    std::string text;
    Code code;
    std::string message;
  } cases[] = {
      {"", Code::kInvalidArgument, "a rule named \"root\""},
      {"a ::= \"b\"", Code::kInvalidArgument, "a rule named \"root\""},
      {"root ::= missing", Code::kInvalidArgument, "line 1, column 10: the rule \"missing\" is defined nowhere"},
      {"root ::= \"a\"\nroot ::= \"b\"", Code::kInvalidArgument,
       "line 2, column 1: the rule \"root\" is defined twice"},
      {"root := \"a\"", Code::kInvalidArgument, "line 1, column 6: expected ::="},
      {"root ::= \"a", Code::kInvalidArgument, "expected \" at the end"},
      {"root ::= [a", Code::kInvalidArgument, "expected ] at the end"},
      {"root ::= []", Code::kInvalidArgument, "a class without characters"},
      {"root ::= [z-a]", Code::kInvalidArgument, "ends before it begins"},
      {"root ::= (\"a\"", Code::kInvalidArgument, "expected )"},
      {"root ::= \"a\")", Code::kInvalidArgument, "line 1, column 13: expected the end of the line"},
      {"root ::= \"a\"{2,1}", Code::kInvalidArgument, "more repetitions at least"},
      {"root ::= \"a\"{x}", Code::kInvalidArgument, "expected a number"},
      {"root ::= \"\\q\"", Code::kInvalidArgument, "behind the backslash"},
      {"root ::= \"\\uD800\"", Code::kInvalidArgument, "a character's number"},
      {"root ::= \"\xFF\"", Code::kInvalidArgument, "expected UTF-8"},
      {"root ::= * \"a\"", Code::kInvalidArgument, "expected the end of the line"},
      {"root ::= root \"a\" | \"b\"", Code::kInvalidArgument,
       "line 1, column 1: the rule \"root\" can begin with itself"},
      {"root ::= a\na ::= b\nb ::= \"\"? [x]* a \"y\"", Code::kInvalidArgument, "can begin with itself"},
      {"root ::= e root | \"x\"\ne ::= \"\" | \"y\"", Code::kInvalidArgument, "can begin with itself"},
      {"root ::= " + Repeated("(", 10000), Code::kExhausted, "nested too deeply"},
      {"root ::= \"a\"" + Repeated("?", 10000), Code::kExhausted, "nested too deeply"},
      {"root ::= ((\"abc\"{1000}){1000}){1000}", Code::kExhausted, "repetitions written out"},
      {"root ::= ((\"\"{1000000}){1000000}){1000000} [a]{1000000}{1000000}", Code::kExhausted,
       "repetitions written out"},
      {"root ::= [a]{99999999999999999999}", Code::kExhausted, "the number of repetitions"},
      {"root ::= \"" + std::string(2 << 20, 'a') + "\"", Code::kExhausted, "at most"},
  };
  for (const auto& one : cases) {
    auto grammar = Grammar::Parse(one.text);
    ASSERT_FALSE(grammar.ok()) << one.text.substr(0, 100);
    EXPECT_EQ(grammar.status().code(), one.code) << grammar.status().ToString();
    EXPECT_THAT(std::string(grammar.status().message()), HasSubstr(one.message)) << one.text.substr(0, 100);
  }
}

// A class is made when it first occurs, however it is written: a million of them fit a grammar's text, and each is tables.
TEST(Grammar, EqualClassesAreMadeOnce) {
  const auto classes = [](const std::string& one) {
    const size_t count = 2000;
    std::string text = "root ::= ";
    for (size_t i = 0; i < count; ++i) text += one;
    ResetAllocations();
    const auto syntax = ParseGrammar(text);
    EXPECT_LT(AllocationCount(), 4 * count) << one;
    EXPECT_TRUE(syntax.ok()) << syntax.status().ToString();
    return syntax.ok() ? syntax->classes.size() : 0;
  };
  EXPECT_EQ(classes("."), 1u);
  EXPECT_EQ(classes("[^a-z]"), 1u);
  EXPECT_EQ(classes("[a][b][\\x61]"), 2u);
}

TEST(Grammar, ManyClassesAreFoundAgain) {
  std::string text = "root ::= ";
  for (int round = 0; round < 4; ++round) {
    for (char32_t c = 0x4E00; c < 0x4E00 + 5000; ++c) {
      text += '[';
      if (round == 1) Utf8Append(c, &text);  // the same set, written in another way
      Utf8Append(c, &text);
      text += ']';
    }
  }
  const auto syntax = ParseGrammar(text);
  ASSERT_TRUE(syntax.ok()) << syntax.status().ToString();
  EXPECT_EQ(syntax->classes.size(), 5000u);
  const GrammarItem::Sequence& items = syntax->rules[0].alternatives[0];
  ASSERT_EQ(items.size(), 20000u);
  for (size_t i = 0; i < items.size(); ++i) ASSERT_EQ(items[i].index, i % 5000) << i;
}

TEST(Grammar, LongRepetitionsAreMade) {
  auto grammar = Grammar::Parse("root ::= \"\\\"\" [^\"]{0,65536} \"\\\"\"");
  ASSERT_TRUE(grammar.ok()) << grammar.status().ToString();
  EXPECT_EQ(Judge(*grammar, "\"" + std::string(65536, 'x') + "\""), Verdict::kWhole);
  EXPECT_EQ(Judge(*grammar, "\"" + std::string(65537, 'x')), Verdict::kRefused);
}

// Each rule calls the next with two ways to go on: 2^60 stacks.
TEST(Grammar, AmbiguityWithoutEndIsRefusedNotFollowed) {
  std::string text = "root ::= r0\n";
  for (int i = 0; i < 60; ++i) {
    const std::string next = "r" + std::to_string(i + 1);
    text += "r" + std::to_string(i) + " ::= " + next + " \"x\" | " + next + " \"y\"\n";
  }
  auto grammar = Grammar::Parse(text + "r60 ::= \"z\"");
  ASSERT_TRUE(grammar.ok()) << grammar.status().ToString();
  EXPECT_EQ(GrammarMatcher::Create(*grammar).status().code(), Code::kExhausted);
}

TEST(Grammar, ALongTextOfOneStateTakesNoMoreStates) {
  auto grammar = Grammar::Parse("root ::= (\"a\" [bc]* \"d\")*");
  ASSERT_TRUE(grammar.ok());
  auto matcher = GrammarMatcher::Create(*grammar);
  ASSERT_TRUE(matcher.ok());
  GrammarMatcher::State largest = 0;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(matcher->Take("abccbd").ok());
    largest = std::max(largest, matcher->state());
  }
  EXPECT_LT(largest, 8u);
}

// Deep nesting makes ever new states; what is behind is forgotten and the text goes on rightly.
TEST(Grammar, ManyStatesAreForgotten) {
  auto grammar = Grammar::Parse("root ::= \"(\" root \")\" | \"x\"");
  ASSERT_TRUE(grammar.ok());
  auto matcher = GrammarMatcher::Create(*grammar);
  ASSERT_TRUE(matcher.ok());
  const int depth = 40000;
  bool compacted = false;
  for (int i = 0; i < depth; ++i) {
    ASSERT_TRUE(matcher->Take("(").ok()) << i;
    compacted = matcher->Compact() || compacted;
  }
  EXPECT_TRUE(compacted);
  ASSERT_TRUE(matcher->Take("x").ok());
  for (int i = 0; i < depth; ++i) {
    EXPECT_FALSE(matcher->MayEnd(matcher->state()));
    ASSERT_TRUE(matcher->Take(")").ok()) << i;
    matcher->Compact();
  }
  EXPECT_TRUE(matcher->MustEnd(matcher->state()));
  EXPECT_FALSE(matcher->Take(")").ok());
}

// ---- Random grammars, read plainly

struct Node {
  enum Kind { kText, kClass, kRule, kGroup } kind = kText;
  std::u32string text;  // kText; kClass: its characters
  bool negated = false;
  size_t rule = 0;
  std::vector<std::vector<Node>> alternatives;
  size_t least = 1, most = 1;
};
using Alternatives = std::vector<std::vector<Node>>;

const std::u32string kLetters = U"abé好";
constexpr size_t kNoMost = 1000;

std::string Utf8(const std::u32string& text) {
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

TEST(RandomGrammars, AreReadAsByBacktracking) {
  const uint32_t count = kSlowed ? 40 : 400;
  size_t compared = 0, whole = 0, beginnings = 0;
  for (uint32_t seed = 0; seed < count; ++seed) {
    RandomGrammar random(seed);
    auto grammar = Grammar::Parse(random.Print());
    // A group that may be empty lets a rule behind it begin the sequence after all.
    if (!grammar.ok()) {
      EXPECT_THAT(std::string(grammar.status().message()), HasSubstr("begin with itself")) << random.Print();
      continue;
    }
    for (int i = 0; i < 40; ++i) {
      const std::u32string word = random.Word();
      const bool expected = random.Whole(word);
      if (random.worked_out()) continue;
      const Verdict verdict = Judge(*grammar, Utf8(word));
      EXPECT_EQ(verdict == Verdict::kWhole, expected) << random.Print() << Utf8(word);
      ++compared;
      whole += expected ? 1 : 0;
      // What is whole has beginnings that are none of refused ones.
      for (size_t n = 0; expected && n < word.size(); ++n, ++beginnings)
        EXPECT_NE(Judge(*grammar, Utf8(word.substr(0, n))), Verdict::kRefused) << random.Print() << Utf8(word);
    }
  }
  EXPECT_GT(compared, size_t{count} * 20);
  EXPECT_GT(whole, size_t{count});
  EXPECT_GT(beginnings, size_t{count});
}

// ---- Tokens

// Bytes, pieces that cut characters, a control token and two that end a text.
std::unique_ptr<const Tokenizer> Vocabulary() {
  TokenizerData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte)
    data.tokens.push_back(BytesToAlphabet(std::string(1, static_cast<char>(byte))));
  data.tokens.push_back("ab");
  data.merges = {"a b"};
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    std::string piece;
    const std::string letters = "ab\xC3\xA9\xE5\xA5\xBD";
    for (size_t n = 2 + random() % 5; n > 0; --n) piece += letters[random() % letters.size()];
    const std::string token = BytesToAlphabet(piece);
    if (std::find(data.tokens.begin(), data.tokens.end(), token) == data.tokens.end()) data.tokens.push_back(token);
  }
  data.token_types.assign(data.tokens.size(), 1);
  for (const char* name : {"<ctrl>", "<|endoftext|>", "<|im_end|>"}) data.tokens.push_back(name);
  data.token_types.resize(data.tokens.size(), 3);
  data.eos_id = static_cast<int64_t>(data.tokens.size()) - 2;
  data.eot_id = static_cast<int64_t>(data.tokens.size()) - 1;
  auto made = Tokenizer::Create(std::move(data));
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return std::move(made).value();
}

// The mask's answer for every token is that of the bytes by themselves.
void ExpectTokenByToken(const Grammar& grammar, const Tokenizer& tokenizer, GrammarMask& mask,
                        const std::string& so_far, size_t* compared) {
  auto matcher = GrammarMatcher::Create(grammar);
  ASSERT_TRUE(matcher.ok() && matcher->Take(so_far).ok());
  matcher->Allow(uint64_t{1} << 20);
  std::vector<bool> expected;
  bool any = false;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    bool allowed = false;
    if (tokenizer.IsEndOfGeneration(id)) {
      allowed = matcher->MayEnd(matcher->state());
    } else if (const std::string_view bytes = tokenizer.TokenBytes(id, false); !bytes.empty()) {
      GrammarMatcher::State state = matcher->state();
      for (const char byte : bytes) {
        auto next = matcher->Next(state, static_cast<uint8_t>(byte));
        if (!next.ok()) return;  // so ambiguous that it is refused
        state = *next;
      }
      allowed = state != GrammarMatcher::kDead;
    }
    expected.push_back(allowed);
    any = any || allowed;
  }
  const auto next = mask.Next();
  if (next.status().code() == Code::kExhausted) return;  // so ambiguous that it is refused
  ++*compared;
  ASSERT_EQ(next.ok(), any) << next.status().ToString();
  for (size_t id = 0; any && id < expected.size() + 100; ++id) {
    const bool allowed = id < expected.size() && expected[id];
    EXPECT_EQ((*next)->Has(static_cast<int32_t>(id)), allowed)
        << "token " << id << " \"" << tokenizer.TokenText(static_cast<int32_t>(id)) << "\" behind \"" << so_far << "\"";
  }
}

TEST(GrammarMask, IsWhatEveryTokenByItselfSays) {
  const auto tokenizer = Vocabulary();
  const auto order = std::make_shared<const TokenOrder>(*tokenizer);
  const uint32_t count = kSlowed ? 4 : 24;
  size_t steps = 0;
  for (uint32_t seed = 0; seed < count; ++seed) {
    RandomGrammar random(seed);
    auto parsed = Grammar::Parse(random.Print());
    if (!parsed.ok()) continue;
    const auto grammar = std::make_shared<const Grammar>(std::move(parsed).value());
    auto mask = GrammarMask::Create(grammar, order);
    ASSERT_TRUE(mask.ok());
    std::mt19937 choose(seed);
    std::string text;
    for (int step = 0; step < 6; ++step) {
      ASSERT_NO_FATAL_FAILURE(ExpectTokenByToken(*grammar, *tokenizer, *mask, text, &steps)) << random.Print();
      if (HasFailure()) FAIL() << random.Print();
      const auto next = mask->Next();
      if (!next.ok()) break;
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
        if ((*next)->Has(id) && !tokenizer->IsEndOfGeneration(id)) allowed.push_back(id);
      }
      if (allowed.empty()) break;
      const int32_t id = allowed[choose() % allowed.size()];
      ASSERT_TRUE(mask->Accept(id).ok());
      text += tokenizer->TokenBytes(id, false);
    }
  }
  EXPECT_GT(steps, count);
}

TEST(GrammarMask, TokensOutsideTheGrammarAreNotAccepted) {
  const auto tokenizer = Vocabulary();
  const auto order = std::make_shared<const TokenOrder>(*tokenizer);
  auto grammar = std::make_shared<const Grammar>(Grammar::Parse("root ::= \"ab\"").value());
  auto mask = GrammarMask::Create(grammar, order);
  ASSERT_TRUE(mask.ok());
  const int32_t control = tokenizer->TokenToId("<ctrl>"), end = tokenizer->TokenToId("<|im_end|>");
  EXPECT_FALSE(mask->Accept('b').ok());
  EXPECT_FALSE(mask->Accept(control).ok());
  EXPECT_FALSE(mask->Accept(end).ok());
  EXPECT_FALSE(mask->may_end());
  EXPECT_TRUE(mask->Accept('a').ok());
  EXPECT_TRUE(mask->Accept('b').ok());
  EXPECT_TRUE(mask->may_end());
  EXPECT_TRUE(mask->must_end());
  EXPECT_TRUE(mask->Accept(end).ok());
}

TEST(GrammarMask, ADeadEndIsAFault) {
  TokenizerData data;
  data.model = "bert";
  data.tokens = {"[UNK]", "[CLS]", "[SEP]", "a"};
  data.token_types = {3, 3, 3, 1};
  data.unk_id = 0;
  data.cls_id = 1;
  data.sep_id = 2;
  auto tokenizer = Tokenizer::Create(std::move(data));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const auto order = std::make_shared<const TokenOrder>(**tokenizer);
  auto mask = GrammarMask::Create(std::make_shared<const Grammar>(Grammar::Parse("root ::= \"好\"").value()), order);
  ASSERT_TRUE(mask.ok());
  EXPECT_EQ(mask->Next().status().code(), Code::kUnsupported);
}

TEST(GrammarMask, IsCancelledAndThenAskedAgain) {
  const auto tokenizer = Vocabulary();
  const auto order = std::make_shared<const TokenOrder>(*tokenizer);
  auto mask = GrammarMask::Create(std::make_shared<const Grammar>(Grammar::Parse("root ::= \"ab\"").value()), order);
  ASSERT_TRUE(mask.ok());
  std::atomic<bool> cancel = true;
  EXPECT_EQ(mask->Next(&cancel).status().code(), Code::kCancelled);
  EXPECT_FALSE(mask->may_end());
  cancel = false;
  const auto next = mask->Next(&cancel);
  ASSERT_TRUE(next.ok()) << next.status().ToString();
  EXPECT_TRUE((*next)->Has('a'));
  EXPECT_FALSE((*next)->Has('b'));
  cancel = true;
  EXPECT_TRUE(mask->Next(&cancel).ok()) << "what is known takes no time";
}

TEST(GrammarMask, ACopyGoesItsOwnWay) {
  const auto tokenizer = Vocabulary();
  const auto order = std::make_shared<const TokenOrder>(*tokenizer);
  auto grammar = std::make_shared<const Grammar>(Grammar::Parse("root ::= \"a\" (\"b\" | \"c\" root)").value());
  auto mask = GrammarMask::Create(grammar, order);
  ASSERT_TRUE(mask.ok());
  ASSERT_TRUE(mask->Accept('a').ok());
  ASSERT_TRUE(mask->Next().ok());  // what is known goes along
  GrammarMask copy = *mask;
  ASSERT_TRUE(mask->Accept('b').ok());
  EXPECT_TRUE(mask->must_end());
  EXPECT_FALSE(copy.may_end());
  ASSERT_TRUE(copy.Accept('c').ok());
  ASSERT_TRUE(copy.Next().ok());
  EXPECT_TRUE((*copy.Next())->Has('a'));
  EXPECT_FALSE((*copy.Next())->Has('b'));
  EXPECT_TRUE(mask->must_end());
}

}  // namespace
}  // namespace moonlit
