// SPDX-License-Identifier: Apache-2.0
// Patterns in a JSON schema against std::regex's reading of ECMA-262: texts that are made match, and texts at random are taken exactly
// where they match.
#include "runtime/text/json_schema_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "runtime/text/grammar.h"
#include "runtime/text/grammar_matcher.h"
#include "tests/support/slowed.h"

namespace moonlit {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

std::string SchemaOf(const std::string& pattern) { return Json({{"type", "string"}, {"pattern", pattern}}).dump(); }

class Followed {
 public:
  explicit Followed(const std::string& pattern)
      : grammar_(Make(pattern)), matcher_(GrammarMatcher::Create(grammar_).value()) {}

  // `text` as a JSON string.
  bool Accepts(const std::string& text) const { return AcceptsJson(Json(text).dump()); }
  bool AcceptsJson(const std::string& json) const {
    GrammarMatcher matcher = matcher_;
    return matcher.Take(json).ok() && matcher.MayEnd(matcher.state());
  }

  // Byte by byte at random, ASCII alone, and the end as soon as there may be one after a while; empty: it did not end.
  std::string Random(std::mt19937& random) const {
    GrammarMatcher matcher = matcher_;
    std::string json;
    while (!matcher.MustEnd(matcher.state())) {
      std::vector<char> allowed;
      for (int byte = 0; byte < 128; ++byte) {
        if (matcher.Next(matcher.state(), static_cast<uint8_t>(byte)).value() != GrammarMatcher::kDead)
          allowed.push_back(static_cast<char>(byte));
      }
      if (allowed.empty() || json.size() > 200) return "";
      char next = allowed[random() % allowed.size()];
      // \u escapes may be surrogates, which std::regex does not read as one character.
      if (next == 'u' && json.back() == '\\') next = 'n';
      if (json.size() > 12 && std::find(allowed.begin(), allowed.end(), '"') != allowed.end() && json.back() != '\\')
        next = '"';
      if (std::find(allowed.begin(), allowed.end(), next) == allowed.end()) return "";
      EXPECT_TRUE(matcher.Take({&next, 1}).ok());
      json += next;
    }
    return json;
  }

 private:
  static Grammar Make(const std::string& pattern) {
    auto grammar = Grammar::FromJsonSchema(SchemaOf(pattern));
    EXPECT_TRUE(grammar.ok()) << pattern << "\n" << grammar.status().ToString();
    return std::move(grammar).value();
  }
  Grammar grammar_;
  GrammarMatcher matcher_;
};

const std::vector<std::string>& Patterns() {
  static const std::vector<std::string> patterns = {
      "^[a-c]+$",
      "^a|b$",
      "a",
      "^$",
      "",
      "^(ab|c)*d?$",
      "^(?:a{2,3}b{0,1}){1,2}$",
      "^[^a]b$",
      "^\\d{2}-\\w+$",
      "^\\D\\W\\S\\s$",
      "^.$",
      "^[\\w.-]+@[a-c]+\\.(ab|c)$",
      "^a*?b+?$",
      "^(a|)(b|)$",
      "^[-a]$",
      "^[a-]$",
      "^[\\]a]$",
      "^\\x61\\u0062$",
      "^a\\/b\"\\\\c$",
      "^\\t|\\n$",
      "(a|b)c",
      "^((a|b)(c|d)?)+$",
      "^a{3}$",
      "^a{2,}$",
      "^[\"\\\\]$",
      "^(a*)*$",
  };
  return patterns;
}

TEST(JsonSchemaPattern, TakesWhatMatches) {
  const std::string letters = "aabbccd1-_. @\"\\/\t\n";
  std::mt19937 random(1);
  size_t matched = 0;
  for (const std::string& pattern : Patterns()) {
    const Followed followed(pattern);
    const std::regex expected(pattern, std::regex::ECMAScript);
    const int count = kSlowed ? 100 : 3000;
    for (int i = 0; i < count; ++i) {
      std::string text;
      for (size_t n = random() % 6; n > 0; --n) text += letters[random() % (i % 2 == 0 ? 7 : letters.size())];
      const bool matches = std::regex_search(text, expected);
      matched += matches ? 1 : 0;
      EXPECT_EQ(followed.Accepts(text), matches) << pattern << ": " << Json(text);
    }
  }
  EXPECT_GT(matched, 10 * Patterns().size());
}

TEST(JsonSchemaPattern, MakesWhatMatches) {
  std::mt19937 random(2);
  for (const std::string& pattern : Patterns()) {
    const Followed followed(pattern);
    const std::regex expected(pattern, std::regex::ECMAScript);
    size_t made = 0;
    for (int i = 0; i < (kSlowed ? 10 : 200); ++i) {
      const std::string json = followed.Random(random);
      if (json.empty()) continue;
      const Json text = Json::parse(json, nullptr, false);
      ASSERT_TRUE(text.is_string()) << pattern << ": " << json;
      EXPECT_TRUE(std::regex_search(text.get<std::string>(), expected)) << pattern << ": " << json;
      ++made;
    }
    EXPECT_GT(made, 0u) << pattern;
  }
}

TEST(JsonSchemaPattern, CharactersAreCodePoints) {
  const Followed han("^[\\u4e00-\\u9fff]{2}\\u{1F600}?.$");
  EXPECT_TRUE(han.Accepts("床前明"));
  EXPECT_TRUE(han.Accepts("床前😀😀"));
  EXPECT_FALSE(han.Accepts("床前"));
  EXPECT_FALSE(han.Accepts("ab床"));
  const Followed negated("^[^é]$");
  EXPECT_TRUE(negated.Accepts("è"));
  EXPECT_TRUE(negated.Accepts("\""));
  EXPECT_FALSE(negated.Accepts("é"));
  EXPECT_FALSE(negated.AcceptsJson("\"\"\"")) << "a quote is escaped";
  EXPECT_FALSE(negated.AcceptsJson("\"\\\"")) << "and a backslash";
  const Followed control("^\\x01$");
  EXPECT_TRUE(control.AcceptsJson("\"\\u0001\""));
}

TEST(JsonSchemaPattern, WhatCannotBeFollowedIsRefusedWithItsPlace) {
  const struct {
    const char* pattern;
    const char* message;
  } cases[] = {
      {"a\\bc", "character 4"},
      {"(a)\\1", "this escape"},
      {"(?=a)", "(?:"},
      {"\\p{L}", "this escape"},
      {"(a", "expected )"},
      {"a)", "a ) without a ("},
      {"[a", "expected ]"},
      {"*a", "nothing to repeat"},
      {"a**", "nothing to repeat"},
      {"a{2", "expected }"},
      {"a{3,2}", "ends before"},
      {"a{9999999}", "too many"},
      {"[z-a]", "ends before"},
      {"[\\d-z]", "from one"},
      {"[]", "without characters"},
      {"a^b", "ends of the pattern"},
      {"(^a)", "ends of the pattern"},
      {"a$b", "follow a $"},
      {"\\", "behind a backslash"},
      {"\\ud83d", "surrogate"},
      {"\\u12", "hexadecimal"},
      {"\\01", "octal"},
  };
  for (const auto& one : cases) {
    const auto body = BodyOfPattern(one.pattern);
    EXPECT_EQ(body.status().code(), Code::kUnsupported) << one.pattern;
    EXPECT_THAT(std::string(body.status().message()), HasSubstr(one.message)) << one.pattern;
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += '(';
  EXPECT_EQ(BodyOfPattern(deep).status().code(), Code::kUnsupported);
  const auto schema = Grammar::FromJsonSchema(R"S({"properties": {"x": {"type": "string", "pattern": "(?!a)"}}})S");
  EXPECT_THAT(schema.status().ToString(), HasSubstr("#/properties/x/pattern"));
}

}  // namespace
}  // namespace moonlit
