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
#include "tests/support/slowed.h"
#include "tests/text/followed_schema.h"

namespace moonlit {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class Followed : public FollowedSchema {
 public:
  explicit Followed(const std::string& pattern)
      : FollowedSchema(Json({{"type", "string"}, {"pattern", pattern}}).dump()) {}
  // `text` as a JSON string.
  bool AcceptsText(const std::string& text) const { return Accepts(Json(text).dump()); }
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
      EXPECT_EQ(followed.AcceptsText(text), matches) << pattern << ": " << Json(text);
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
  EXPECT_TRUE(han.AcceptsText("床前明"));
  EXPECT_TRUE(han.AcceptsText("床前😀😀"));
  EXPECT_FALSE(han.AcceptsText("床前"));
  EXPECT_FALSE(han.AcceptsText("ab床"));
  const Followed negated("^[^é]$");
  EXPECT_TRUE(negated.AcceptsText("è"));
  EXPECT_TRUE(negated.AcceptsText("\""));
  EXPECT_FALSE(negated.AcceptsText("é"));
  EXPECT_FALSE(negated.Accepts("\"\"\"")) << "a quote is escaped";
  EXPECT_FALSE(negated.Accepts("\"\\\"")) << "and a backslash";
  const Followed control("^\\x01$");
  EXPECT_TRUE(control.Accepts("\"\\u0001\""));
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
  // Before all of it, a hundred times as long, is written out.
  std::string large;
  for (int i = 0; i < 100000; ++i) large += "\\W";
  EXPECT_EQ(BodyOfPattern(large).status().code(), Code::kExhausted);
  const auto schema = Grammar::FromJsonSchema(R"S({"properties": {"x": {"type": "string", "pattern": "(?!a)"}}})S");
  EXPECT_THAT(schema.status().ToString(), HasSubstr("#/properties/x/pattern"));
}

}  // namespace
}  // namespace moonlit
