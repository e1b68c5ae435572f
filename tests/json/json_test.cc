// SPDX-License-Identifier: Apache-2.0
// What is read is what nlohmann-json's own values hold, and what is printed is what they print.
#include "runtime/json/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "runtime/json/json_events.h"
#include "tests/support/slowed.h"

namespace moonlit {
namespace {

using ::testing::HasSubstr;
using Judge = nlohmann::ordered_json;

void ExpectSameNumber(const Json& found, const Judge& judge) {
  ASSERT_EQ(found.is_integer(), judge.is_number_integer());
  ASSERT_EQ(found.is_unsigned(), judge.is_number_unsigned());
  if (judge.is_number_unsigned()) {
    EXPECT_EQ(found.AsUnsigned(), judge.get<uint64_t>());
  } else if (judge.is_number_integer()) {
    EXPECT_EQ(found.AsInteger(), judge.get<int64_t>());
  }
  EXPECT_EQ(found.AsDouble(), judge.get<double>());
}

void ExpectSame(const Json& found, const Judge& judge) {
  ASSERT_EQ(found.is_null(), judge.is_null());
  ASSERT_EQ(found.is_boolean(), judge.is_boolean());
  ASSERT_EQ(found.is_number(), judge.is_number());
  ASSERT_EQ(found.is_string(), judge.is_string());
  ASSERT_EQ(found.is_array(), judge.is_array());
  ASSERT_EQ(found.is_object(), judge.is_object());
  if (judge.is_number()) return ExpectSameNumber(found, judge);
  if (judge.is_boolean()) {
    EXPECT_EQ(found.AsBoolean(), judge.get<bool>());
  } else if (judge.is_string()) {
    EXPECT_EQ(found.AsString(), judge.get<std::string>());
  }
  if (!judge.is_structured()) {
    EXPECT_EQ(found.size(), 0u);
    return;
  }
  ASSERT_EQ(found.size(), judge.size());
  size_t i = 0;
  for (const auto& [name, value] : judge.items()) {
    ExpectSame(found[i], value);
    if (judge.is_object()) {
      EXPECT_EQ(found.Key(i), name);
      EXPECT_TRUE(found.Has(name));
      ExpectSame(found.Get(name), value);
      EXPECT_FALSE(found.Has(name + "x") && !judge.contains(name + "x"));
    }
    ++i;
  }
}

// The same verdict, the same values, the same print.
void ExpectAgrees(const std::string& text) {
  SCOPED_TRACE(text.substr(0, 200));
  const Judge judge = Judge::parse(text, nullptr, false);
  const Result<Json> found = ParseJson(text);
  ASSERT_EQ(found.ok(), !judge.is_discarded()) << found.status().ToString();
  if (judge.is_discarded()) {
    EXPECT_EQ(found.status().code(), Code::kCorrupt);
    EXPECT_THAT(found.status().ToString(), HasSubstr("byte"));
    return;
  }
  ExpectSame(*found, judge);
  EXPECT_EQ(PrintJson(*found), judge.dump());
  const std::string ascii = judge.dump(-1, ' ', true, Judge::error_handler_t::replace);
  for (const size_t most : {size_t{0}, size_t{1}, size_t{7}, size_t{60}, ascii.size(), ascii.size() + 9})
    EXPECT_EQ(JsonForMessage(*found, most), ascii.substr(0, most));
  const Result<Json> again = ParseJson(PrintJson(*found));
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(*again == *found);
}

TEST(Json, AgreesOnNumbersAtTheBorders) {
  for (const char* number : {"0",
                             "-0",
                             "0.0",
                             "-0.0",
                             "1",
                             "-1",
                             "9223372036854775807",
                             "9223372036854775808",
                             "-9223372036854775808",
                             "-9223372036854775809",
                             "18446744073709551615",
                             "18446744073709551616",
                             "1e22",
                             "1e-7",
                             "123456789012345680",
                             "0.1",
                             "1.0",
                             "100.0",
                             "5e-324",
                             "2.2250738585072014e-308",
                             "1.7976931348623157e308",
                             "1.7976931348623159e308",
                             "1e309",
                             "-1e999",
                             "1e-999",
                             "01",
                             "+1",
                             "1.",
                             ".5",
                             "1e",
                             "0x1",
                             "1e+5",
                             "1E5",
                             "NaN",
                             "Infinity",
                             "--1",
                             "0.30000000000000004",
                             "4.35",
                             "1e15",
                             "1e16",
                             "123456.789e3",
                             "99999999999999974834176.0"}) {
    ExpectAgrees(number);
    ExpectAgrees("[" + std::string(number) + "]");
  }
}

TEST(Json, AgreesOnStrings) {
  for (const char* text : {R"("")",
                           R"("a\"b\\c\/d\b\f\n\r\t")",
                           R"("\u0000\u001f\u007f\u0080")",
                           R"("\ud83d\ude00")",
                           R"("\ud83d")",
                           R"("\ude00")",
                           R"("\ud83dx")",
                           R"("\ud83d\ud83d")",
                           R"("\u12")",
                           R"("\x41")",
                           "\"\t\"",
                           "\"\n\"",
                           "\"\x7f\"",
                           "\"é好😀\"",
                           "\"\xc3\"",
                           "\"\xc0\x80\"",
                           "\"\xed\xa0\x80\"",
                           "\"\xf4\x8f\xbf\xbf\"",
                           "\"\xf4\x90\x80\x80\"",
                           "\"\xe2\x28\xa1\"",
                           "\"\xff\"",
                           "\"\\",
                           "\"",
                           "'a'",
                           R"("\uFFFF\uD7FF\uE000")",
                           "\xef\xbb\xbf\"bom\"",
                           "\xef\xbb[]"})
    ExpectAgrees(text);
  std::string all;
  for (int c = 1; c < 128; ++c) all += static_cast<char>(c);
  EXPECT_EQ(PrintJsonString(all), Judge(all).dump());
  EXPECT_EQ(PrintJsonString(std::string_view("a\0b", 3)), R"("a\u0000b")");
}

TEST(Json, AgreesOnWhatIsNone) {
  for (const char* text : {"",          " ",       "[",        "]",          "{",         "}",     "[1,]",
                           "[,1]",      "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{1:2}",     "tru",   "nul",
                           "truefalse", "[] []",   "[]x",      "/* */ 1",    "{\"a\" 1}", "[1 2]", "\xfe\xff[]"})
    ExpectAgrees(text);
}

TEST(Json, AgreesOnMembersOfOneName) {
  for (const char* text :
       {R"({"a":1,"a":2})", R"({"a":1,"b":2,"a":{"c":[]},"b":3})", R"({"x":{"a":1,"a":2},"x":{"a":3,"a":4}})",
        R"({"":0,"":1})", R"({"b":1,"a":2,"c":3,"a":4,"a":5,"d":6})", R"({"a":[1,2],"a":null})",
        R"({"\u0061":1,"a":2})"})
    ExpectAgrees(text);
}

// Written down at random: valid but for now and then a byte that is changed.
class Writer {
 public:
  explicit Writer(uint32_t seed) : random_(seed) {}

  std::string Document() {
    std::string text = Value(0);
    if (Below(4) == 0) text[Below(text.size())] = static_cast<char>(Below(256));
    return text;
  }

 private:
  size_t Below(size_t most) { return std::uniform_int_distribution<size_t>(0, most - 1)(random_); }
  std::string Value(int depth) {
    switch (Below(depth < 5 ? 8 : 6)) {
      case 0:
        return std::vector<std::string>{"null", "true", "false"}[Below(3)];
      case 1:
        return std::to_string(static_cast<int64_t>(random_()) - (int64_t{1} << 31));
      case 2:
        return std::to_string(uint64_t{random_()} << Below(33));
      case 3: {
        char text[64];
        const uint64_t bits = uint64_t{random_()} << 32 | random_();
        double value;
        std::memcpy(&value, &bits, sizeof value);
        std::snprintf(text, sizeof text, "%.*g", static_cast<int>(1 + Below(20)), std::isfinite(value) ? value : 0.5);
        return text;
      }
      case 4:
      case 5:
        return String();
      default:
        return Container(depth, Below(2) == 0);
    }
  }
  std::string String() {
    static const std::vector<std::string> kPieces = {
        "a", "b", "é", "好", "😀", "\\n", " ", "\\u00e9", "\\ud83d\\ude00", "\\\"", "\\/", "\\\\", "\x7f", "\\u0000"};
    std::string text = "\"";
    for (size_t n = Below(6); n > 0; --n) text += kPieces[Below(kPieces.size())];
    return text + "\"";
  }
  std::string Space() { return std::vector<std::string>{"", "", " ", "\n", "\t", "\r"}[Below(6)]; }
  std::string Container(int depth, bool object) {
    std::string text = object ? "{" : "[";
    const size_t count = Below(6);
    for (size_t i = 0; i < count; ++i) {
      text += (i > 0 ? "," : "") + Space();
      if (object) text += String() + Space() + ":";
      text += Value(depth + 1) + Space();
    }
    return text + (object ? "}" : "]");
  }

  std::mt19937 random_;
};

TEST(Json, AgreesOnDocumentsAtRandom) {
  for (uint32_t seed = 0; seed < (kSlowed ? 300u : 5000u); ++seed) ExpectAgrees(Writer(seed).Document());
}

TEST(Json, AnObjectOfManyNamesInAnyOrderIsSearchedQuickly) {
  const size_t count = kSlowed ? 20000 : 200000;
  std::string text = "{";
  for (size_t i = 0; i < count; ++i)
    text += (i > 0 ? ",\"k" : "\"k") + std::to_string(i * 7919 % count) + "\":" + std::to_string(i);
  const Result<Json> json = ParseJson(text + "}");
  ASSERT_TRUE(json.ok());
  ASSERT_EQ(json->size(), count);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(json->Get("k" + std::to_string(i * 7919 % count)).AsUnsigned(), i);
  EXPECT_FALSE(json->Has("k"));
}

TEST(Json, OneNameManyTimesIsOneMember) {
  std::string text = "{\"first\":0";
  for (size_t i = 1; i <= 50000; ++i) text += ",\"same\":" + std::to_string(i);
  const Result<Json> json = ParseJson(text + ",\"last\":0}");
  ASSERT_TRUE(json.ok());
  ASSERT_EQ(json->size(), 3u);
  EXPECT_EQ(json->Key(1), "same");
  EXPECT_EQ((*json)[1].AsUnsigned(), 50000u);
}

std::string Nested(size_t depth, const std::string& inner) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += i % 2 == 0 ? "[" : "{\"a\":";
  text += inner;
  for (size_t i = depth; i-- > 0;) text += i % 2 == 0 ? "]" : "}";
  return text;
}

TEST(Json, BoundsTheDepth) {
  EXPECT_TRUE(ParseJson(Nested(kMostJsonDepth, "1")).ok());
  EXPECT_TRUE(ParseJson(Nested(kMostJsonDepth, "[]")).ok());
  EXPECT_EQ(ParseJson(Nested(kMostJsonDepth + 1, "1")).status().code(), Code::kExhausted);
  EXPECT_EQ(ParseJson(Nested(kMostJsonDepth, "[[]]")).status().code(), Code::kExhausted);
  EXPECT_EQ(ParseJson(std::string(1000000, '[')).status().code(), Code::kExhausted);
  EXPECT_TRUE(ParseJson("[1]", {.depth = 1}).ok());
  EXPECT_EQ(ParseJson("[[1]]", {.depth = 1}).status().code(), Code::kExhausted);
  EXPECT_TRUE(ParseJson("1", {.depth = 0}).ok());
  EXPECT_EQ(ParseJson("[1]", {.depth = 0}).status().code(), Code::kExhausted);
}

TEST(Json, BoundsTheMembers) {
  const JsonBounds bounds = {.members = 2};
  EXPECT_TRUE(ParseJson(R"({"a":{"c":1,"d":2},"b":[1,2,3]})", bounds).ok());
  const Result<Json> many = ParseJson(R"({"a":1,"b":2,"a":3})", bounds);
  EXPECT_EQ(many.status().code(), Code::kExhausted);
  EXPECT_THAT(many.status().ToString(), HasSubstr("2 members"));
}

TEST(Json, IsEqualByWhatItSays) {
  const auto equal = [](const char* a, const char* b) {
    const Json left = ParseJson(a).value(), right = ParseJson(b).value();
    EXPECT_EQ(left == right, right == left);
    EXPECT_EQ(left == right, nlohmann::json::parse(a) == nlohmann::json::parse(b));
    return left == right;
  };
  EXPECT_TRUE(equal("1", "1.0"));
  EXPECT_TRUE(equal("-0", "0"));
  EXPECT_TRUE(equal("-3", "-3.0"));
  EXPECT_FALSE(equal("1", "2"));
  EXPECT_FALSE(equal("-1", "18446744073709551614"));
  EXPECT_FALSE(equal("1", "true"));
  EXPECT_FALSE(equal("0", "null"));
  EXPECT_FALSE(equal("\"\"", "null"));
  EXPECT_TRUE(equal(R"({"a":1,"b":[2]})", R"({"b":[2.0],"a":1})"));
  EXPECT_FALSE(equal(R"({"a":1})", R"({"b":1})"));
  EXPECT_FALSE(equal(R"({"a":null})", R"({"b":null})"));
  EXPECT_FALSE(equal(R"({"a":1})", R"({"a":1,"b":1})"));
  EXPECT_TRUE(equal("[1,[2,{}]]", "[1,[2,{}]]"));
  EXPECT_FALSE(equal("[1,2]", "[2,1]"));
  EXPECT_FALSE(equal("[]", "{}"));
}

TEST(Json, AbsentMembersAreNull) {
  const Json json = ParseJson(R"({"a":null,"b":"text"})").value();
  EXPECT_TRUE(json.Has("a"));
  EXPECT_TRUE(json.Get("a").is_null());
  EXPECT_FALSE(json.Has("c"));
  EXPECT_TRUE(json.Get("c").is_null());
  EXPECT_TRUE(json.Get("c").Get("d").is_null());
  EXPECT_TRUE(json.Get("b").Is("text"));
  EXPECT_FALSE(json.Get("a").Is(""));
  EXPECT_EQ(Json().size(), 0u);
  EXPECT_TRUE(Json() == json.Get("a"));
}

TEST(Json, ValuesOutliveTheRoot) {
  Json inner;
  {
    const Json json = ParseJson(R"({"a":["one","two"]})").value();
    inner = json.Get("a");
  }
  size_t count = 0;
  for (const Json item : inner) count += item.AsString().size();
  EXPECT_EQ(count, 6u);
}

// Writes down what it is told, and refuses numbers below 0.
class Notes : public JsonEvents {
 public:
  Status Null() override { return Note("null"); }
  Status Boolean(bool value) override { return Note(value ? "true" : "false"); }
  Status Integer(int64_t) override { return Errorf(Code::kUnsupported, "below 0"); }
  Status Unsigned(uint64_t value) override { return Note(std::to_string(value)); }
  Status Double(double) override { return Note("double"); }
  Status String(std::string_view text) override { return Note("'" + std::string(text)); }
  Status StartArray() override { return Note("["); }
  Status EndArray() override { return Note("]"); }
  Status StartObject() override { return Note("{"); }
  Status Key(std::string_view name) override { return Note(std::string(name) + ":"); }
  Status EndObject() override { return Note("}"); }
  Status Broken(size_t byte, std::string_view last) override {
    return Errorf(Code::kCorrupt, "byte %zu: %s", byte, std::string(last).c_str());
  }

  std::string notes;

 private:
  Status Note(const std::string& note) {
    notes += note + " ";
    return Status();
  }
};

TEST(JsonEvents, ComeInTheOrderOfTheText) {
  Notes events;
  EXPECT_TRUE(ReadJson(R"({"b":[1,true,null,0.5],"a":{},"b":"x"})", events).ok());
  EXPECT_EQ(events.notes, "{ b: [ 1 true null double ] a: { } b: 'x } ");
}

TEST(JsonEvents, EndWithTheFirstStatusThatIsNotOk) {
  Notes events;
  const Status refused = ReadJson("[1,-2,3", events);
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_EQ(events.notes, "[ 1 ");
  Notes others;
  EXPECT_THAT(ReadJson("[1,tru]", others).ToString(), AllOf(HasSubstr("byte 7: "), HasSubstr("tru]")));
  EXPECT_TRUE(ReadJson(std::string(100000, '[') + std::string(100000, ']'), others).ok()) << "no recursion";
}

}  // namespace
}  // namespace moonlit
