// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/json/json.h"

namespace moonlit {
namespace {

// Appends to a text until it has `most` bytes or some more.
class Printer {
 public:
  Printer(bool ascii, size_t most) : ascii_(ascii), most_(most) {}

  std::string Take() { return std::move(out_); }

  // By recursion, which the depth of a document bounds.
  void Value(const Json& value) {
    switch (value.type()) {
      case JsonType::kNull:
        out_ += "null";
        break;
      case JsonType::kBoolean:
        out_ += value.AsBoolean() ? "true" : "false";
        break;
      case JsonType::kInteger:
        out_ += std::to_string(value.AsInteger());
        break;
      case JsonType::kUnsigned:
        out_ += std::to_string(value.AsUnsigned());
        break;
      case JsonType::kDouble:
        Double(value.AsDouble());
        break;
      case JsonType::kString:
        String(value.AsString());
        break;
      case JsonType::kArray:
      case JsonType::kObject:
        Container(value);
    }
  }

  void String(std::string_view text) {
    out_ += '"';
    for (size_t at = 0; at < text.size() && out_.size() < most_;) {
      const auto byte = static_cast<unsigned char>(text[at]);
      const size_t length = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
      Character(text.substr(at, length));
      at += length;
    }
    out_ += '"';
  }

 private:
  void Container(const Json& value) {
    const bool object = value.is_object();
    out_ += object ? '{' : '[';
    for (size_t i = 0; i < value.size() && out_.size() < most_; ++i) {
      if (i > 0) out_ += ',';
      if (object) {
        String(value.Key(i));
        out_ += ':';
      }
      Value(value[i]);
    }
    out_ += object ? '}' : ']';
  }

  // As few digits as give the same number back.
  void Double(double value) {
    char text[64];
    out_.append(text, nlohmann::detail::to_chars(text, text + sizeof text, value));
  }

  // One of UTF-8.
  void Character(std::string_view utf8) {
    static constexpr std::string_view kPlain = "\b\t\n\f\r\"\\", kLetters = "btnfr\"\\";
    const auto byte = static_cast<unsigned char>(utf8[0]);
    if (const size_t place = kPlain.find(utf8[0]); place != std::string_view::npos) {
      out_ += '\\';
      out_ += kLetters[place];
    } else if (byte < 0x20 || (ascii_ && byte == 0x7F)) {
      Escape(byte);
    } else if (byte < 0x80 || !ascii_) {
      out_ += utf8;
    } else {
      uint32_t code = byte & (0xFFu >> (utf8.size() + 1));
      for (const char next : utf8.substr(1)) code = code << 6 | (static_cast<unsigned char>(next) & 0x3Fu);
      if (code >= 0x10000) Escape(0xD7C0 + (code >> 10));  // a pair of surrogates
      Escape(code >= 0x10000 ? 0xDC00 + (code & 0x3FF) : code);
    }
  }
  void Escape(uint32_t unit) {
    char text[8];
    std::snprintf(text, sizeof text, "\\u%04x", static_cast<unsigned>(unit & 0xFFFF));
    out_ += text;
  }

  const bool ascii_;
  const size_t most_;
  std::string out_;
};

}  // namespace

std::string PrintJson(const Json& value) {
  Printer printer(false, SIZE_MAX);
  printer.Value(value);
  return printer.Take();
}

std::string JsonForMessage(const Json& value, size_t most) {
  Printer printer(true, most);
  printer.Value(value);
  return printer.Take().substr(0, most);
}

std::string PrintJsonString(std::string_view text) {
  Printer printer(false, SIZE_MAX);
  printer.String(text);
  return printer.Take();
}

}  // namespace moonlit
