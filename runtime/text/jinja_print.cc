// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja_print.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "runtime/text/jinja_value.h"
#include "runtime/text/utf8.h"

namespace moonlit::jinja {
namespace {

void AppendHex(const char* format, unsigned value, std::string* out) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, format, value);
  *out += buffer;
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {
    if (style_.item_separator.empty()) style_.item_separator = style_.indent < 0 ? ", " : ",";
    if (style_.key_separator.empty()) style_.key_separator = ": ";
  }

  void Write(const Value& value) {
    if (value.IsNone()) {
      out += "null";
    } else if (value.Is<bool>()) {
      out += Truth(value) ? "true" : "false";
    } else if (value.IsInteger()) {
      out += std::to_string(value.AsInteger());
    } else if (value.IsNumber()) {
      const double number = value.AsDouble();
      out += std::isnan(number)   ? "NaN"
             : std::isinf(number) ? (number > 0 ? "Infinity" : "-Infinity")
                                  : FloatRepr(number);
    } else if (const Text* text = value.text()) {
      out += JsonString(text->bytes());
    } else if (const List* list = value.list()) {
      WriteList(*list);
    } else if (const Dict* dict = value.dict()) {
      WriteDict(*dict);
    } else {
      Fail(Code::kInvalidArgument, "tojson: expected what JSON has a form for, found %s", KindName(value));
    }
  }

  std::string out;

 private:
  void NewLine() {
    if (style_.indent < 0) return;
    out += '\n';
    out.append(static_cast<size_t>(style_.indent) * level_, ' ');
  }
  void WriteList(const List& list) {
    out += '[';
    ++level_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      NewLine();
      Write(list.items[i]);
    }
    --level_;
    if (!list.items.empty()) NewLine();
    out += ']';
  }
  void WriteDict(const Dict& dict) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto& a, const auto& b) { return Less(a->first, b->first); });
    }
    out += '{';
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      NewLine();
      const Value& key = entries[i]->first;
      if (key.text() != nullptr) {
        Write(key);
      } else if (key.IsNumber() || key.IsNone()) {
        out += '"';
        Write(key);
        out += '"';
      } else {
        Fail(Code::kInvalidArgument, "tojson: %s can't be a key", KindName(key));
      }
      out += style_.key_separator;
      Write(entries[i]->second);
    }
    --level_;
    if (!entries.empty()) NewLine();
    out += '}';
  }

  JsonStyle style_;
  size_t level_ = 0;
};

}  // namespace

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view scientific(buffer, static_cast<size_t>(end - buffer));
  const size_t e = scientific.find('e');
  const int exponent = std::atoi(std::string(scientific.substr(e + 1)).c_str());
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  const auto fixed_end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  std::string fixed(buffer, static_cast<size_t>(fixed_end - buffer));
  if (fixed.find('.') == std::string::npos) fixed += ".0";
  return fixed;
}

std::string StringRepr(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\' || c == quote) {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      AppendHex("\\x%02x", byte, &out);
    } else {
      out += c;
    }
  }
  return out + quote;
}

std::string JsonString(std::string_view text) {
  static constexpr std::string_view kPlain = "\"\\\n\r\t\b\f", kNames = "\"\\nrtbf";
  const std::string valid = Utf8ReplaceInvalid(text);
  std::string out = "\"";
  for (const char c : valid) {
    const auto byte = static_cast<unsigned char>(c);
    const size_t name = kPlain.find(c);
    if (name != std::string_view::npos) {
      out += '\\';
      out += kNames[name];
    } else if (byte < 0x20) {
      AppendHex("\\u%04x", byte, &out);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string Repr(const Value& value) {
  if (const Text* text = value.text()) return StringRepr(text->bytes());
  std::string out;
  if (const List* list = value.list()) {
    for (const Value& item : list->items) out += (out.empty() ? "" : ", ") + Repr(item);
    return "[" + out + "]";
  }
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, item] : dict->entries) out += (out.empty() ? "" : ", ") + Repr(key) + ": " + Repr(item);
    return "{" + out + "}";
  }
  return value.IsUndefined() ? "Undefined" : ToText(value).bytes();
}

Text ToText(const Value& value) {
  if (const Text* text = value.text()) return *text;
  if (value.IsUndefined()) return Text();
  if (value.IsNone()) return Text("None", false);
  if (value.Is<bool>()) return Text(Truth(value) ? "True" : "False", false);
  // Numbers, lists and dicts may be the caller's.
  if (value.IsInteger()) return Text(std::to_string(value.AsInteger()), true);
  if (value.IsNumber()) return Text(FloatRepr(value.AsDouble()), true);
  if (value.list() != nullptr || value.dict() != nullptr) return Text(Repr(value), true);
  return Text(value.space() != nullptr ? "<Namespace>" : "<function>", false);
}

std::string ToJson(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.Write(value);
  return std::move(writer.out);
}

}  // namespace moonlit::jinja
