// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/json_schema.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <vector>

#include "runtime/base/quote.h"
#include "runtime/json/json.h"
#include "runtime/text/gbnf_text.h"
#include "runtime/text/json_schema_pattern.h"
#include "runtime/text/json_schema_values.h"

namespace moonlit {
namespace {

constexpr size_t kMostSchemaBytes = size_t{1} << 20;
constexpr uint64_t kMostCount = 1000000;  // as repetitions in a grammar

// RFC 8259, within what readers take: numbers of sixteen digits and two of an exponent; escapes of surrogates in pairs.
constexpr char kCommonRules[] = R"(ws ::= " "?
hex ::= [0-9a-fA-F]
char ::= [^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" ([0-9a-cA-CefEF] hex{3} | [dD] ([0-7] hex{2} | [89abAB] hex{2} "\\u" [dD] [c-fC-F] hex{2})))
string ::= "\"" char* "\""
boolean ::= "true" | "false"
null ::= "null"
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
number ::= integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?
array ::= "[" ws (value (ws "," ws value)*)? ws "]"
member ::= string ws ":" ws value
object ::= "{" ws (member (ws "," ws member)*)? ws "}"
value ::= object | array | string | number | boolean | null
)";

constexpr size_t kMostPointer = 200;  // bytes that a message shows
constexpr size_t kMostTypes = 7;      // that there are

// Grows no longer than a message shows: there is one for every value, however long the names around it are.
std::string Pointer(const std::string& parent, std::string_view key) {
  if (parent.size() + 4 > kMostPointer) return parent;
  std::string out = parent + "/";
  for (size_t i = 0; i < key.size() && out.size() <= kMostPointer; ++i)
    out += key[i] == '~' ? "~0" : key[i] == '/' ? "~1" : std::string(1, key[i]);
  return std::string(FrontForMessage(out, kMostPointer));
}

class Converter {
 public:
  explicit Converter(const Json& root) : root_(root) {}

  Result<std::string> Run() {
    MOONLIT_ASSIGN_OR_RETURN(const std::string root, Rule(root_, ""));
    // Schemas that refer to others are converted when they are first referred to, one after another.
    for (size_t i = 0; i < waiting_.size(); ++i) {
      const Referred referred = waiting_[i];
      MOONLIT_ASSIGN_OR_RETURN(const std::string body, Rule(referred.schema, referred.pointer));
      MOONLIT_RETURN_IF_ERROR(Define(referred.name, body));
    }
    return "root ::= " + root + "\n" + out_ + kCommonRules + (formats_ ? kFormatRules : "");
  }

 private:
  struct Referred {
    Json schema;
    std::string pointer;
    std::string name;
  };

  static Status Fault(Code code, const std::string& pointer, const char* what) {
    return Errorf(code, "JSON schema, at \"#%s\": %s", pointer.c_str(), what);
  }
  Status Define(const std::string& name, const std::string& body) {
    if (out_.size() + body.size() > kMostGrammarText)
      return Errorf(Code::kExhausted, "JSON schema: its grammar takes more than %zu bytes", kMostGrammarText);
    out_ += name + " ::= " + body + "\n";
    return Status();
  }
  Result<std::string> NewRule(const std::string& body) {
    std::string name = "r" + std::to_string(++rules_);
    MOONLIT_RETURN_IF_ERROR(Define(name, body));
    return name;
  }

  // What a rule's body may say for a schema: the name of a rule, or a group.
  Result<std::string> Rule(const Json& schema, const std::string& pointer) {
    if (schema.is_boolean() && schema.AsBoolean()) return std::string("value");
    if (schema.is_boolean()) return Fault(Code::kUnsupported, pointer, "false allows nothing, so no text can be made");
    if (!schema.is_object()) return Fault(Code::kInvalidArgument, pointer, "expected a schema: an object or a boolean");
    MOONLIT_RETURN_IF_ERROR(CheckKeywords(schema, pointer));
    static constexpr const char* kWhole[] = {"$ref", "const", "enum", "anyOf", "allOf"};
    for (const char* keyword : kWhole) {
      if (!schema.Has(keyword)) continue;
      MOONLIT_RETURN_IF_ERROR(CheckAlone(schema, keyword, pointer));
      return Whole(schema, keyword, Pointer(pointer, keyword));
    }
    return Typed(schema, pointer);
  }

  static bool IsAnnotation(std::string_view keyword) {
    static constexpr std::string_view kAnnotations[] = {"title",    "description", "default",  "examples",
                                                        "$schema",  "$id",         "$defs",    "definitions",
                                                        "$comment", "deprecated",  "readOnly", "writeOnly"};
    return std::find(std::begin(kAnnotations), std::end(kAnnotations), keyword) != std::end(kAnnotations);
  }

  static Status CheckKeywords(const Json& schema, const std::string& pointer) {
    static constexpr std::string_view kKnown[] = {"type",
                                                  "enum",
                                                  "const",
                                                  "anyOf",
                                                  "allOf",
                                                  "$ref",
                                                  "properties",
                                                  "required",
                                                  "additionalProperties",
                                                  "items",
                                                  "minItems",
                                                  "maxItems",
                                                  "format",
                                                  "pattern",
                                                  "minLength",
                                                  "maxLength",
                                                  "minimum",
                                                  "maximum",
                                                  "exclusiveMinimum",
                                                  "exclusiveMaximum"};
    for (size_t i = 0; i < schema.size(); ++i) {
      const std::string_view keyword = schema.Key(i);
      if (IsAnnotation(keyword) || std::find(std::begin(kKnown), std::end(kKnown), keyword) != std::end(kKnown))
        continue;
      return Fault(Code::kUnsupported, Pointer(pointer, keyword), "this keyword can't be followed here; leave it out");
    }
    return Status();
  }

  // A keyword that decides all by itself; "type" beside enum and const only says again what the values are.
  static Status CheckAlone(const Json& schema, const std::string& keyword, const std::string& pointer) {
    for (size_t i = 0; i < schema.size(); ++i) {
      const std::string_view other = schema.Key(i);
      if (other == keyword || IsAnnotation(other)) continue;
      if (other == "type" && (keyword == "enum" || keyword == "const")) continue;
      return Fault(Code::kUnsupported, Pointer(pointer, other),
                   ("it can't be followed together with " + keyword).c_str());
    }
    return Status();
  }

  // Of keywords that each say what a text looks like, only one can be followed.
  static Status CheckOneOf(const Json& schema, std::initializer_list<const char*> keywords,
                           const std::string& pointer) {
    const char* found = nullptr;
    for (const char* keyword : keywords) {
      if (!schema.Has(keyword)) continue;
      if (found != nullptr)
        return Fault(Code::kUnsupported, Pointer(pointer, keyword),
                     (std::string("it can't be followed together with ") + found).c_str());
      found = keyword;
    }
    return Status();
  }

  Result<std::string> Whole(const Json& schema, const std::string& keyword, const std::string& pointer) {
    const Json value = schema.Get(keyword);
    if (keyword == "$ref") return Reference(value, pointer);
    if (keyword == "const") return Literal(value, schema, pointer);
    if (!value.is_array() || value.empty())
      return Fault(Code::kInvalidArgument, pointer, "expected an array of at least one");
    if (keyword == "allOf" && value.size() > 1)
      return Fault(Code::kUnsupported, pointer, "several schemas at once can't be followed here; write them as one");
    std::string choices;
    for (size_t i = 0; i < value.size(); ++i) {
      const std::string at = Pointer(pointer, std::to_string(i));
      auto choice = keyword == "enum" ? Literal(value[i], schema, at) : Rule(value[i], at);
      if (!choice.ok()) return choice.status();
      AddChoice(choices, *choice);
    }
    return NewRule(choices);
  }

  static Result<std::string> Literal(const Json& value, const Json& schema, const std::string& pointer) {
    if (schema.Has("type")) {
      const Json type = schema.Get("type");
      if (type.is_array() && type.size() > kMostTypes)
        return Fault(Code::kInvalidArgument, pointer, "more types beside it than there are");
      bool fits = HasType(value, type);
      for (const Json one : type) fits |= HasType(value, one);
      if (!fits) return Fault(Code::kUnsupported, pointer, "the value is not of the type beside it");
    }
    return Quoted(PrintJson(value));
  }
  static bool HasType(const Json& value, const Json& type) {
    if (type.Is("string")) return value.is_string();
    if (type.Is("integer")) return value.is_integer();
    if (type.Is("number")) return value.is_number();
    if (type.Is("boolean")) return value.is_boolean();
    if (type.Is("null")) return value.is_null();
    if (type.Is("object")) return value.is_object();
    return type.Is("array") && value.is_array();
  }

  Result<std::string> Reference(const Json& reference, const std::string& pointer) {
    if (!reference.is_string()) return Fault(Code::kInvalidArgument, pointer, "expected a string");
    const std::string text(reference.AsString());
    if (text.empty() || text[0] != '#')
      return Fault(Code::kUnsupported, pointer, "only references within the schema are followed (#/...)");
    const std::string target = text.substr(1);
    const auto known = references_.find(target);
    if (known != references_.end()) return known->second;
    const std::optional<Json> found = Find(target);
    if (!found) return Fault(Code::kInvalidArgument, pointer, "there is nothing where it points to");
    const std::string name = "ref" + std::to_string(references_.size());
    references_[target] = name;
    waiting_.push_back({*found, target, name});
    return name;
  }

  std::optional<Json> Find(const std::string& target) const {
    Json at = root_;
    for (size_t i = 0; i < target.size();) {
      const size_t end = std::min(target.find('/', i + 1), target.size());
      std::string key;
      for (size_t k = i + 1; k < end; ++k) {
        const bool escaped = target[k] == '~' && k + 1 < end && (target[k + 1] == '0' || target[k + 1] == '1');
        key += escaped ? (target[k + 1] == '0' ? '~' : '/') : target[k];
        if (escaped) ++k;
      }
      if (target[i] != '/') return std::nullopt;
      if (at.Has(key)) {
        at = at.Get(key);
      } else if (at.is_array() && !key.empty() && key.size() < 7 &&
                 key.find_first_not_of("0123456789") == std::string::npos && std::stoul(key) < at.size()) {
        at = at[std::stoul(key)];
      } else {
        return std::nullopt;
      }
      i = end;
    }
    return at;
  }

  Result<std::string> Typed(const Json& schema, const std::string& pointer) {
    std::vector<std::string> types;
    if (schema.Has("type")) {
      const Json type = schema.Get("type");
      const std::string at = Pointer(pointer, "type");
      if (type.is_array() && type.size() > kMostTypes)
        return Fault(Code::kInvalidArgument, at, "more types than there are");
      if (type.is_string()) types.emplace_back(type.AsString());
      for (size_t i = 0; type.is_array() && i < type.size(); ++i) {
        if (!type[i].is_string()) return Fault(Code::kInvalidArgument, at, "expected names of types");
        types.emplace_back(type[i].AsString());
      }
      if (types.empty()) return Fault(Code::kInvalidArgument, at, "expected the name of a type, or several");
    } else if (schema.Has("properties") || schema.Has("required")) {
      types = {"object"};
    } else if (schema.Has("items")) {
      types = {"array"};
    } else if (schema.Has("minLength") || schema.Has("maxLength") || schema.Has("format") || schema.Has("pattern")) {
      types = {"string"};
    } else if (HasBound(schema)) {
      types = {"number"};
    } else if (schema.Has("minItems") || schema.Has("maxItems") || schema.Has("additionalProperties")) {
      return Fault(Code::kUnsupported, pointer, "expected a type beside it");
    } else {
      return std::string("value");
    }
    std::string choices;
    for (const std::string& type : types) {
      MOONLIT_ASSIGN_OR_RETURN(const std::string choice, OfType(type, schema, pointer));
      AddChoice(choices, choice);
    }
    return types.size() == 1 ? Result<std::string>(choices) : NewRule(choices);
  }

  Result<std::string> OfType(const std::string& type, const Json& schema, const std::string& pointer) {
    if (type == "object") return Object(schema, pointer);
    if (type == "array") return Array(schema, pointer);
    if (type == "string") return String(schema, pointer);
    if (type == "integer" || type == "number") return Number(type, schema, pointer);
    for (const char* plain : {"boolean", "null"}) {
      if (type == plain) return type;
    }
    return Fault(Code::kInvalidArgument, Pointer(pointer, "type"), "no such type");
  }

  // {least,most} of two keywords, given or not.
  struct Bounds {
    uint64_t least = 0, most = UINT64_MAX;
    std::string Repetitions(uint64_t less) const {
      const std::string from = std::to_string(least > less ? least - less : 0);
      return "{" + from + "," + (most == UINT64_MAX ? "" : std::to_string(most - less)) + "}";
    }
  };
  static Result<Bounds> ReadBounds(const Json& schema, const char* least, const char* most,
                                   const std::string& pointer) {
    Bounds bounds;
    for (const auto& [keyword, field] : {std::pair(least, &bounds.least), std::pair(most, &bounds.most)}) {
      if (!schema.Has(keyword)) continue;
      const Json value = schema.Get(keyword);
      if (!value.is_unsigned() || value.AsUnsigned() > kMostCount)
        return Fault(Code::kInvalidArgument, Pointer(pointer, keyword), "expected a whole number from 0 to 1000000");
      *field = value.AsUnsigned();
    }
    if (bounds.least > bounds.most) return Fault(Code::kInvalidArgument, pointer, "more at least than at most");
    return bounds;
  }

  Result<std::string> InQuotes(const std::string& body) { return NewRule("\"\\\"\" " + body + " \"\\\"\""); }

  struct Bound {
    const char* keyword;
    bool lower, open;
  };
  static constexpr Bound kBounds[] = {{"minimum", true, false},
                                      {"exclusiveMinimum", true, true},
                                      {"maximum", false, false},
                                      {"exclusiveMaximum", false, true}};
  static bool HasBound(const Json& schema) {
    return std::any_of(std::begin(kBounds), std::end(kBounds), [&](const Bound& b) { return schema.Has(b.keyword); });
  }

  Result<std::string> Number(const std::string& type, const Json& schema, const std::string& pointer) {
    if (!HasBound(schema)) return type;
    NumberInterval in;
    for (const auto& [keyword, lower, open] : kBounds) {
      if (!schema.Has(keyword)) continue;
      const Json bound = schema.Get(keyword);
      if (!bound.is_number()) return Fault(Code::kInvalidArgument, Pointer(pointer, keyword), "expected a number");
      const double value = bound.AsDouble();
      constexpr double kMostOfNumbers = 1e9;  // above it 6 digits behind the point may be rounded up to the bound
      if (type == "number" && (std::trunc(value) != value || std::abs(value) > kMostOfNumbers)) {
        return Fault(Code::kUnsupported, Pointer(pointer, keyword),
                     "of numbers a bound can be followed that is whole and at most 1000000000");
      }
      // Integers that are at least 0.5 are at least 1.
      const double whole = lower ? std::ceil(value) : std::floor(value);
      const double outside = static_cast<double>(kMostInteger + 1);
      const bool exact = bound.is_integer() && std::abs(value) < outside;
      const int64_t at = exact ? bound.AsInteger() : static_cast<int64_t>(std::clamp(whole, -outside, outside));
      if (lower) in.Raise(at, open && whole == value);
      if (!lower) in.Lower(at, open && whole == value);
    }
    const std::string body = type == "number" ? NumbersIn(in) : IntegersIn(in);
    if (body.empty()) return Fault(Code::kUnsupported, pointer, "there is no number between its bounds");
    return NewRule(body);
  }

  Result<std::string> String(const Json& schema, const std::string& pointer) {
    MOONLIT_RETURN_IF_ERROR(CheckOneOf(schema, {"format", "pattern", "minLength"}, pointer));
    MOONLIT_RETURN_IF_ERROR(CheckOneOf(schema, {"format", "pattern", "maxLength"}, pointer));
    if (schema.Has("format")) {
      const Json format = schema.Get("format");
      const char* body = format.is_string() ? BodyOfFormat(format.AsString()) : nullptr;
      if (body == nullptr) {
        return Fault(Code::kUnsupported, Pointer(pointer, "format"),
                     (std::string("expected one of these formats, or none: ") + kKnownFormats).c_str());
      }
      formats_ = true;
      return InQuotes(body);
    }
    if (schema.Has("pattern")) {
      const std::string at = Pointer(pointer, "pattern");
      if (!schema.Get("pattern").is_string()) return Fault(Code::kInvalidArgument, at, "expected a string");
      const Result<std::string> body = BodyOfPattern(schema.Get("pattern").AsString());
      if (!body.ok()) return Fault(body.status().code(), at, std::string(body.status().message()).c_str());
      return InQuotes("(" + *body + ")");
    }
    if (!schema.Has("minLength") && !schema.Has("maxLength")) return std::string("string");
    MOONLIT_ASSIGN_OR_RETURN(const Bounds bounds, ReadBounds(schema, "minLength", "maxLength", pointer));
    return InQuotes("char" + bounds.Repetitions(0));
  }

  Result<std::string> Array(const Json& schema, const std::string& pointer) {
    std::string item = "value";
    if (schema.Has("items")) {
      MOONLIT_ASSIGN_OR_RETURN(item, Rule(schema.Get("items"), Pointer(pointer, "items")));
    }
    MOONLIT_ASSIGN_OR_RETURN(const Bounds bounds, ReadBounds(schema, "minItems", "maxItems", pointer));
    if (bounds.most == 0) return NewRule("\"[\" ws \"]\"");
    const std::string items = item + " (ws \",\" ws " + item + ")" + bounds.Repetitions(1);
    return NewRule("\"[\" ws " + (bounds.least == 0 ? "(" + items + ")?" : items) + " ws \"]\"");
  }

  Result<std::string> Object(const Json& schema, const std::string& pointer) {
    const Json properties = schema.Get("properties"), required = schema.Get("required");
    if (schema.Has("properties") && !properties.is_object())
      return Fault(Code::kInvalidArgument, Pointer(pointer, "properties"), "expected an object");
    if (schema.Has("required") && !required.is_array())
      return Fault(Code::kInvalidArgument, Pointer(pointer, "required"), "expected an array");
    MOONLIT_ASSIGN_OR_RETURN(const std::vector<std::string_view> needed_names, Required(properties, required, pointer));
    if (properties.empty()) return FreeObject(schema, pointer);
    // From the last member to the first: what may follow when a member stands before, and when none does.
    std::string after = "\"\"", first = "\"\"";
    for (size_t i = properties.size(); i-- > 0;) {
      const std::string_view name = properties.Key(i);
      const bool needed = std::binary_search(needed_names.begin(), needed_names.end(), name);
      MOONLIT_ASSIGN_OR_RETURN(const std::string rule,
                               Rule(properties[i], Pointer(Pointer(pointer, "properties"), name)));
      MOONLIT_ASSIGN_OR_RETURN(const std::string member,
                               NewRule(Quoted(PrintJsonString(name)) + " ws \":\" ws " + rule));
      MOONLIT_ASSIGN_OR_RETURN(first, NewRule(member + " " + after + (needed ? "" : " | " + first)));
      MOONLIT_ASSIGN_OR_RETURN(after, NewRule("ws \",\" ws " + member + " " + after + (needed ? "" : " | " + after)));
    }
    return NewRule("\"{\" ws " + first + " ws \"}\"");
  }

  // Names of `required`, sorted.
  static Result<std::vector<std::string_view>> Required(const Json& properties, const Json& required,
                                                        const std::string& pointer) {
    std::vector<std::string_view> names;
    for (const Json name : required) {
      if (!name.is_string() || !properties.Has(name.AsString()))
        return Fault(Code::kUnsupported, Pointer(pointer, "required"), "expected names of properties");
      names.push_back(name.AsString());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Without named properties: any members, of one schema, or none.
  Result<std::string> FreeObject(const Json& schema, const std::string& pointer) {
    if (!schema.Has("additionalProperties")) return std::string("object");
    const Json more = schema.Get("additionalProperties");
    if (more.is_boolean()) return more.AsBoolean() ? Result<std::string>("object") : NewRule("\"{\" ws \"}\"");
    MOONLIT_ASSIGN_OR_RETURN(const std::string value, Rule(more, Pointer(pointer, "additionalProperties")));
    MOONLIT_ASSIGN_OR_RETURN(const std::string member, NewRule("string ws \":\" ws " + value));
    return NewRule("\"{\" ws (" + member + " (ws \",\" ws " + member + ")*)? ws \"}\"");
  }

  const Json root_;
  std::string out_;
  size_t rules_ = 0;
  bool formats_ = false;                           // some rule uses kFormatRules
  std::map<std::string, std::string> references_;  // pointer -> rule
  std::vector<Referred> waiting_;
};

}  // namespace

Result<std::string> JsonSchemaToGrammar(std::string_view schema) {
  if (schema.size() > kMostSchemaBytes)
    return Errorf(Code::kExhausted, "JSON schema: expected at most %zu bytes, found %zu", kMostSchemaBytes,
                  schema.size());
  const Result<Json> json = ParseJson(schema);
  if (json.status().code() == Code::kOutOfMemory) return json.status();
  if (!json.ok())
    return Errorf(Code::kInvalidArgument, "JSON schema: expected JSON of at most %zu levels", kMostJsonDepth);
  return Converter(*json).Run();
}

}  // namespace moonlit
