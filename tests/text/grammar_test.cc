// SPDX-License-Identifier: Apache-2.0
// Grammars accept what they say and nothing else: written cases, and random grammars against a plain backtracking reading of them.
#include "runtime/text/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/text/grammar_matcher.h"
#include "runtime/text/grammar_syntax.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/slowed.h"
#include "tests/text/random_grammar.h"

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

// Words that begin alike, of which some are the beginning of others, one stands twice, and what follows them differs.
TEST(Grammar, WordsShareTheirBeginnings) {
  auto grammar = Grammar::Parse(
      R"(root ::= ("ab" | "abc" "x" | "abd" [yz] | "" | "ab" | other | "b" | "abc" "w" | "é" | "è"){1,2} "."
other ::= "ac" | "a" "b" "d" "q")");
  ASSERT_TRUE(grammar.ok()) << grammar.status().ToString();
  for (const char* text :
       {".", "ab.", "abcx.", "abcw.", "abdy.", "abdq.", "b.", "ac.", "é.", "è.", "abab.", "abcxè.", "bac."})
    EXPECT_EQ(Judge(*grammar, text), Verdict::kWhole) << text;
  for (const char* text : {"a", "abc", "abd", "ababc", "\xc3"})
    EXPECT_EQ(Judge(*grammar, text), Verdict::kBegins) << text;
  for (const char* text : {"abx", "abc.", "abcy", "aq", "x", "ababab", "c."})
    EXPECT_EQ(Judge(*grammar, text), Verdict::kRefused) << text;
}

// Every word is the beginning of the next one.
TEST(Grammar, BeginningsOfBeginningsAreFollowed) {
  std::string text = "root ::= \"\"";
  for (size_t n = 1; n <= 1400; ++n) text += " | \"" + std::string(n, 'a') + "\"";
  auto grammar = Grammar::Parse(text);
  ASSERT_TRUE(grammar.ok()) << grammar.status().ToString();
  EXPECT_EQ(Judge(*grammar, std::string(1400, 'a')), Verdict::kWhole);
  EXPECT_EQ(Judge(*grammar, std::string(1401, 'a')), Verdict::kRefused);
}

// What a list takes is bounded also where all of it is one word, and written out often.
TEST(Grammar, AListOfOneWordThatIsRepeatedIsTooLarge) {
  std::string words = "\"a\"";
  for (int i = 0; i < 100000; ++i) words += "|\"a\"";
  EXPECT_EQ(Grammar::Parse("root ::= (" + words + "){1000000}").status().code(), Code::kExhausted);
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

}  // namespace
}  // namespace moonlit
