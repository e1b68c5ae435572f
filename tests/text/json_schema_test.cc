// SPDX-License-Identifier: Apache-2.0
// What a schema's grammar lets through is valid by the schema; what it can't follow is refused with its place.
#include "runtime/text/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "runtime/text/grammar.h"
#include "runtime/text/grammar_matcher.h"
#include "runtime/text/utf8.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/slowed.h"

namespace moonlit {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

bool Accepts(const Grammar& grammar, const std::string& text) {
  auto matcher = GrammarMatcher::Create(grammar);
  EXPECT_TRUE(matcher.ok());
  for (size_t at = 0; at < text.size(); at += 1000) {
    if (!matcher->Take(std::string_view(text).substr(at, 1000)).ok()) return false;
    matcher->Compact();
  }
  return matcher->MayEnd(matcher->state());
}

constexpr char kPerson[] = R"({"type": "object", "title": "Person", "properties": {
    "name": {"type": "string", "minLength": 1, "maxLength": 8},
    "age": {"type": "integer"},
    "kind": {"enum": ["a", "b\"c", 3, null]},
    "tags": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}},
  "required": ["name", "kind"], "additionalProperties": false})";

constexpr char kTree[] = R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
    "value": {"anyOf": [{"type": "number"}, {"type": ["string", "null"]}]},
    "left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}}, "required": ["value"]}}})";

TEST(JsonSchema, AcceptsWhatIsValidAndInOrder) {
  const struct {
    std::string schema;
    std::vector<std::string> whole, refused;
  } cases[] = {
      {kPerson,
       {R"({"name":"Ann","age":3,"kind":"a","tags":[true]})", R"({"name": "é好😀", "kind": "b\"c"})",
        "{\"name\":\"\\u00e9\", \"kind\" : null}", R"({"name":"12345678","kind":3})"},
       {R"({"kind":"a","name":"Ann"})", R"({"name":"","kind":"a"})", R"({"name":"123456789","kind":"a"})",
        R"({"name":"A"})", R"({"name":"A","kind":"x"})", R"({"name":"A","kind":"a","tags":[]})",
        R"({"name":"A","kind":"a","tags":[true,false,true,true]})", R"({"name":"A","kind":"a","more":1})",
        R"({"name":"A","kind":"a",})", R"({"name":"A" "kind":"a"})", "{", "[]"}},
      {kTree,
       {R"({"value":1.5})", R"({"value":null,"right":{"value":"x","left":{"value":-2e3}}})"},
       {R"({})", R"({"value":true})", R"({"value":1,"right":{}})"}},
      {"{}",
       {"1", "-0.5e-3", "\"\"", "[]", "{}", "[1, [true, null], {\"a\": {}}]", "\"\\ud83d\\ude00\""},
       {"01", "+1", "1.", "\"\\ud83d\"", "\"\n\"", "[1,]", "tru", "'a'"}},
      {"true", {"1", "{}"}, {""}},
      {R"({"type": "integer"})", {"0", "-7", "1234567890123456"}, {"1.0", "00", "-", "1e3"}},
      {R"({"type": "string", "minLength": 2})", {"\"ab\"", "\"\\n\\\"\"", "\"好好好\""}, {"\"a\"", "\"\"", "ab"}},
      {R"({"type": "array", "items": {"const": 1}, "minItems": 2})", {"[1,1]", "[1, 1 , 1]"}, {"[1]", "[]", "[1,2]"}},
      {R"({"type": "array", "maxItems": 0})", {"[]", "[ ]"}, {"[1]"}},
      {R"({"type": "array", "maxItems": 1})", {"[]", "[{}]"}, {"[1,1]"}},
      {R"({"type": "object"})", {"{}", "{\"a\":1,\"b\":[2]}"}, {"[]", "{a:1}"}},
      {R"({"type": "object", "additionalProperties": {"type": "null"}})",
       {"{}", "{\"a\":null,\"b\":null}"},
       {"{\"a\":1}"}},
      {R"({"type": "object", "additionalProperties": false})", {"{}"}, {"{\"a\":1}"}},
      {R"({"properties": {"a/b~c\"": {"type": "null"}}})", {"{}", "{\"a/b~c\\\"\":null}"}, {"{\"a\":null}"}},
      {R"({"properties": {"a": {}, "b": {}, "c": {}}, "required": ["b"]})",
       {"{\"b\":1}", "{\"a\":1,\"b\":1}", "{\"b\":1,\"c\":1}", "{\"a\":1,\"b\":1,\"c\":1}"},
       {"{}", "{\"a\":1}", "{\"a\":1,\"c\":1}", "{,\"b\":1}", "{\"b\":1,}"}},
      {R"({"enum": ["x", "x"], "type": "string"})", {"\"x\""}, {"x"}},
      {R"({"allOf": [{"type": "null"}], "description": "d"})", {"null"}, {"1"}},
      {R"({"type": ["null", "boolean"]})", {"null", "true"}, {"1"}},
      {R"({"definitions": {"x": {"type": "null"}}, "type": "array", "items": {"$ref": "#/definitions/x"}})",
       {"[null]"},
       {"[1]"}},
      {R"({"pattern": "^a+$"})", {"\"a\"", "\"aaa\""}, {"\"b\"", "1"}},
      {R"({"format": "date"})", {"\"2024-02-29\""}, {"\"2023-02-29\""}},
      {R"({"minimum": 3, "maximum": 4})", {"3", "3.5", "4"}, {"2", "4.5", "\"3\""}},
      {R"({"const": {"a": [1, "é"]}})", {"{\"a\":[1,\"é\"]}"}, {"{\"a\":[1]}"}},
  };
  for (const auto& one : cases) {
    auto grammar = Grammar::FromJsonSchema(one.schema);
    ASSERT_TRUE(grammar.ok()) << one.schema << "\n" << grammar.status().ToString();
    for (const std::string& text : one.whole) EXPECT_TRUE(Accepts(*grammar, text)) << one.schema << "\n" << text;
    for (const std::string& text : one.refused) EXPECT_FALSE(Accepts(*grammar, text)) << one.schema << "\n" << text;
  }
}

TEST(JsonSchema, WhatCannotBeFollowedIsRefusedWithItsPlace) {
  const struct {
    std::string schema;
    Code code;
    std::string message;
  } cases[] = {
      {"{", Code::kInvalidArgument, "expected JSON"},
      {"1", Code::kInvalidArgument, "at \"#\": expected a schema"},
      {"false", Code::kUnsupported, "false allows nothing"},
      {R"({"type": "string", "pattern": "^+[a-z]$"})", Code::kUnsupported, "at \"#/pattern\""},
      {R"({"properties": {"a/b": {"type": "string", "format": "email"}}})", Code::kUnsupported,
       "\"#/properties/a~1b/format\""},
      {R"({"type": "string", "format": "email"})", Code::kUnsupported, "date-time"},
      {R"({"type": "string", "format": "date", "minLength": 3})", Code::kUnsupported, "#/minLength"},
      {R"({"type": "string", "pattern": "a", "maxLength": 3})", Code::kUnsupported, "#/maxLength"},
      {R"({"type": "string", "pattern": 1})", Code::kInvalidArgument, "#/pattern"},
      {R"({"type": "integer", "multipleOf": 3})", Code::kUnsupported, "#/multipleOf"},
      {R"({"type": "integer", "minimum": "3"})", Code::kInvalidArgument, "#/minimum"},
      {R"({"type": "integer", "minimum": 3, "maximum": 2})", Code::kUnsupported, "no number between"},
      {R"({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 4})", Code::kUnsupported, "no number between"},
      {R"({"type": "integer", "minimum": 1e300})", Code::kUnsupported, "no number between"},
      {R"({"type": "number", "minimum": 0.5})", Code::kUnsupported, "#/minimum"},
      {R"({"type": "number", "maximum": 1e10})", Code::kUnsupported, "#/maximum"},
      {R"({"format": "email"})", Code::kUnsupported, "#/format"},
      {R"({"minimum": 0.5})", Code::kUnsupported, "#/minimum"},
      {R"({"oneOf": [{}]})", Code::kUnsupported, "#/oneOf"},
      {R"({"allOf": [{}, {}]})", Code::kUnsupported, "#/allOf"},
      {R"({"anyOf": []})", Code::kInvalidArgument, "#/anyOf"},
      {R"({"enum": []})", Code::kInvalidArgument, "#/enum"},
      {R"({"enum": [1], "type": "string"})", Code::kUnsupported, "#/enum/0"},
      {R"({"$ref": "other.json"})", Code::kUnsupported, "#/$ref"},
      {R"({"$ref": "#/nowhere"})", Code::kInvalidArgument, "nothing where it points to"},
      {R"({"$ref": "#/$defs/x", "type": "string", "$defs": {"x": {}}})", Code::kUnsupported, "#/type"},
      {R"({"$ref": "#"})", Code::kInvalidArgument, "begin with itself"},
      {R"({"anyOf": [{"type": "null"}, {"$ref": "#"}]})", Code::kInvalidArgument, "begin with itself"},
      {R"({"type": "strange"})", Code::kInvalidArgument, "#/type"},
      {R"({"type": []})", Code::kInvalidArgument, "#/type"},
      {R"({"type": "string", "minLength": -1})", Code::kInvalidArgument, "#/minLength"},
      {R"({"type": "string", "minLength": 2, "maxLength": 1})", Code::kInvalidArgument, "more at least than at most"},
      {R"({"type": "array", "maxItems": 1e300})", Code::kInvalidArgument, "#/maxItems"},
      {R"({"properties": {}, "required": ["a"]})", Code::kUnsupported, "#/required"},
      {R"({"properties": []})", Code::kInvalidArgument, "#/properties"},
      {R"({"minItems": 1})", Code::kUnsupported, "expected a type"},
      {R"({"type": "array", "items": [{}]})", Code::kInvalidArgument, "#/items"},
      {R"({"type": "array", "items": {"type": "string", "maxLength": 1000000}, "maxItems": 1000000})", Code::kExhausted,
       "grammar"},
      {std::string(100000, '['), Code::kInvalidArgument, "expected JSON"},
      {R"({"type": ["null", "null", "null", "null", "null", "null", "null", "null"]})", Code::kInvalidArgument,
       "#/type"},
      {R"({"enum": [1], "type": ["null", "null", "null", "null", "null", "null", "null", "integer"]})",
       Code::kInvalidArgument, "#/enum/0"},
      {R"({"properties": {")" + std::string(300, 'x') + R"(": {"format": "email"}}})", Code::kUnsupported,
       "at \"#/properties/xxx"},
  };
  for (const auto& one : cases) {
    auto grammar = Grammar::FromJsonSchema(one.schema);
    ASSERT_FALSE(grammar.ok()) << one.schema.substr(0, 200);
    EXPECT_EQ(grammar.status().code(), one.code) << one.schema.substr(0, 200) << grammar.status().ToString();
    EXPECT_THAT(std::string(grammar.status().message()), HasSubstr(one.message)) << one.schema.substr(0, 200);
  }
}

// Every comparison of a name with one of "required" would be at least an allocation.
TEST(JsonSchema, ManyNamesAreSoughtOnce) {
  constexpr size_t kCount = 1000;
  Json schema = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
  for (size_t i = 0; i < kCount; ++i) {
    schema["properties"]["p" + std::to_string(i)] = {{"type", "null"}};
    schema["required"].push_back("p" + std::to_string(i));
  }
  const std::string text = schema.dump();
  ResetAllocations();
  const auto grammar = JsonSchemaToGrammar(text);
  EXPECT_LT(AllocationCount(), 100 * kCount);
  ASSERT_TRUE(grammar.ok()) << grammar.status().ToString();
}

TEST(JsonSchema, LongStringsAreAllowed) {
  const size_t longest = kSlowed ? 4096 : 65536;
  auto grammar = Grammar::FromJsonSchema(R"({"type": "string", "maxLength": )" + std::to_string(longest) + "}");
  ASSERT_TRUE(grammar.ok()) << grammar.status().ToString();
  EXPECT_TRUE(Accepts(*grammar, "\"" + std::string(longest, 'x') + "\""));
  EXPECT_FALSE(Accepts(*grammar, "\"" + std::string(longest + 1, 'x') + "\""));
}

// Valid by the parts of a schema that are known; its own reading of the standard.
bool Valid(const Json& root, const Json& schema, const Json& value) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref"))
    return Valid(root, root.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1))), value);
  if (schema.contains("const") && schema["const"] != value) return false;
  const auto among = [&](const char* keyword, const auto& fits) {
    if (!schema.contains(keyword)) return true;
    return std::any_of(schema[keyword].begin(), schema[keyword].end(), fits);
  };
  if (!among("enum", [&](const Json& one) { return one == value; })) return false;
  if (!among("anyOf", [&](const Json& one) { return Valid(root, one, value); })) return false;
  const auto is = [&](const Json& type) {
    return (type == "string" && value.is_string()) || (type == "number" && value.is_number()) ||
           (type == "integer" && value.is_number_integer()) || (type == "boolean" && value.is_boolean()) ||
           (type == "null" && value.is_null()) || (type == "object" && value.is_object()) ||
           (type == "array" && value.is_array());
  };
  if (schema.contains("type") && schema["type"].is_string() && !is(schema["type"])) return false;
  if (schema.contains("type") && schema["type"].is_array() && !among("type", is)) return false;
  if (value.is_string()) {
    size_t length = 0;
    for (const char c : value.get<std::string>()) length += (c & 0xC0) != 0x80 ? 1 : 0;
    if (length < schema.value("minLength", size_t{0}) || length > schema.value("maxLength", SIZE_MAX)) return false;
  }
  if (value.is_array()) {
    if (value.size() < schema.value("minItems", size_t{0}) || value.size() > schema.value("maxItems", SIZE_MAX))
      return false;
    for (const Json& item : value) {
      if (schema.contains("items") && !Valid(root, schema["items"], item)) return false;
    }
  }
  if (value.is_object()) {
    for (const Json& name : schema.value("required", Json::array())) {
      if (!value.contains(name.get<std::string>())) return false;
    }
    for (const auto& [name, member] : value.items()) {
      if (schema.contains("properties") && schema["properties"].contains(name)) {
        if (!Valid(root, schema["properties"][name], member)) return false;
      } else if (schema.contains("additionalProperties") && !Valid(root, schema["additionalProperties"], member)) {
        return false;
      }
    }
  }
  return true;
}

// A text of the grammar, byte by byte at random, towards its end after a while.
std::string RandomText(const Grammar& grammar, uint32_t seed) {
  std::mt19937 random(seed);
  auto matcher = GrammarMatcher::Create(grammar);
  EXPECT_TRUE(matcher.ok());
  std::string text;
  while (true) {
    if (matcher->MustEnd(matcher->state()) || (matcher->MayEnd(matcher->state()) && random() % 4 == 0)) return text;
    std::vector<char> allowed;
    for (int byte = 0; byte < 256; ++byte) {
      if (matcher->Next(matcher->state(), static_cast<uint8_t>(byte)).value() != GrammarMatcher::kDead)
        allowed.push_back(static_cast<char>(byte));
    }
    EXPECT_FALSE(allowed.empty()) << text;
    if (allowed.empty()) return text;
    char chosen = allowed[random() % allowed.size()];
    // What closes is preferred, or the text would grow for ever.
    for (const char closing : {'"', ']', '}'}) {
      if (text.size() > 20 + random() % 60 && std::find(allowed.begin(), allowed.end(), closing) != allowed.end())
        chosen = closing;
    }
    EXPECT_TRUE(matcher->Take({&chosen, 1}).ok());
    text += chosen;
    if (text.size() > 20000) return text;
  }
}

TEST(JsonSchema, WhateverIsMadeIsValid) {
  const std::vector<std::string> schemas = {
      kPerson,
      kTree,
      "{}",
      R"({"type": "number"})",
      R"({"type": "string", "minLength": 3, "maxLength": 5})",
      R"({"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "array", "maxItems": 2}]}, "minItems": 1})",
      R"({"properties": {"a": {"type": "null"}, "b": {"const": [1]}, "c": {"type": ["string", "number"]}}, "required": ["c"]})",
      R"({"type": "object", "additionalProperties": {"enum": ["é", {"x": 1}]}})"};
  size_t made = 0;
  for (const std::string& text : schemas) {
    const Json schema = Json::parse(text);
    auto grammar = Grammar::FromJsonSchema(text);
    ASSERT_TRUE(grammar.ok()) << grammar.status().ToString();
    for (uint32_t seed = 0; seed < (kSlowed ? 8u : 200u); ++seed) {
      const std::string json = RandomText(*grammar, seed);
      if (json.size() > 20000) continue;
      const Json value = Json::parse(json, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << text << "\n" << json;
      EXPECT_TRUE(Valid(schema, schema, value)) << text << "\n" << json;
      ++made;
    }
  }
  EXPECT_GT(made, schemas.size() * 6);
}

}  // namespace
}  // namespace moonlit
