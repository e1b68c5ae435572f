// SPDX-License-Identifier: Apache-2.0
// JSON of model folders and callers, which is untrusted, as values that never change:
//
//   MOONLIT_ASSIGN_OR_RETURN(const Json config, ParseJson(text));
//   const Json layers = config.Get("num_hidden_layers");
//   if (!layers.is_unsigned()) return Errorf(..., JsonForMessage(layers, 60).c_str());
//
// nlohmann-json reads the text; its own values are not used, because they take memory when they are freed, where nobody can be told
// that there is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace moonlit {

// Far more than the files of any model nest. What reads values by recursion goes no deeper.
inline constexpr size_t kMostJsonDepth = 64;

struct JsonBounds {
  size_t depth = kMostJsonDepth;  // arrays and objects around a value
  size_t members = SIZE_MAX;      // that an object has, those of one name counted each
};

enum class JsonType : uint8_t {
  kNull,
  kBoolean,
  kInteger,   // "-0", or a whole number from -2^63 to -1
  kUnsigned,  // a whole number from 0 to 2^64 - 1
  kDouble,    // any other number
  kString,
  kArray,
  kObject
};

// A value of a document. Copies are cheap (the document is shared), and neither a copy nor a destructor takes memory. Any number of
// threads may read, and copy, values of one document. Texts that a value gives out live as long as some value of its document.
class Json {
 public:
  Json() = default;  // null

  JsonType type() const;
  bool is_null() const { return type() == JsonType::kNull; }
  bool is_boolean() const { return type() == JsonType::kBoolean; }
  bool is_integer() const { return type() == JsonType::kInteger || type() == JsonType::kUnsigned; }
  bool is_unsigned() const { return type() == JsonType::kUnsigned; }
  bool is_number() const { return is_integer() || type() == JsonType::kDouble; }
  bool is_string() const { return type() == JsonType::kString; }
  bool is_array() const { return type() == JsonType::kArray; }
  bool is_object() const { return type() == JsonType::kObject; }

  // REQUIRES: the kind of value that the name says; AsInteger: of kUnsigned at most 2^63 - 1.
  bool AsBoolean() const;
  int64_t AsInteger() const;
  uint64_t AsUnsigned() const;
  double AsDouble() const;            // of any number
  std::string_view AsString() const;  // valid UTF-8, and may contain NUL

  // Elements of an array, members of an object; 0 of all others.
  size_t size() const;
  bool empty() const { return size() == 0; }
  // The ith element, or the value of the ith member in the order of the text. REQUIRES: i < size().
  Json operator[](size_t i) const;
  // REQUIRES: is_object(), i < size().
  std::string_view Key(size_t i) const;
  // By name, in O(log size()); false, or null, when there is no such member or this is no object. Of members of one name there is one:
  // it stands where the first did and has the value of the last.
  bool Has(std::string_view name) const;
  Json Get(std::string_view name) const;

  // The string with these bytes. (A const char* would otherwise be taken for true where a bool is compared.)
  bool Is(std::string_view text) const { return is_string() && AsString() == text; }

  // Elements, or the members' values.
  class Iterator;
  Iterator begin() const;
  Iterator end() const;

  // Numbers are equal by what they say (1 and 1.0 are), objects whatever the order of their members.
  friend bool operator==(const Json& a, const Json& b);
  friend Result<Json> ParseJson(std::string_view text, const JsonBounds& bounds);

 private:
  struct Node;
  struct Document;
  class Builder;
  Json(std::shared_ptr<const Document> document, const Node* node) : document_(std::move(document)), node_(node) {}
  const Node* Find(std::string_view name) const;
  std::string_view TextOf(const Node& node) const;

  std::shared_ptr<const Document> document_;
  const Node* node_ = nullptr;  // of the document; null without one
};

class Json::Iterator {
 public:
  Iterator(const Json& parent, size_t at) : parent_(&parent), at_(at) {}
  Json operator*() const { return (*parent_)[at_]; }
  Iterator& operator++() {
    ++at_;
    return *this;
  }
  bool operator!=(const Iterator& other) const { return at_ != other.at_; }

 private:
  const Json* parent_;
  size_t at_;
};
inline Json::Iterator Json::begin() const { return Iterator(*this, 0); }
inline Json::Iterator Json::end() const { return Iterator(*this, size()); }

// RFC 8259, with a byte order mark allowed. kCorrupt: no JSON, with the byte where it ends to be; a number that no double can hold is
// none. kExhausted: beyond the bounds, or 2 GiB. kOutOfMemory. std::bad_alloc leaves only where there is no memory for a Status either.
Result<Json> ParseJson(std::string_view text, const JsonBounds& bounds = {});

// On one line without spaces, members in the order of the text, strings in UTF-8: ParseJson gives an equal value back.
std::string PrintJson(const Json& value);
// For a message: the same in ASCII, cut after `most` bytes.
std::string JsonForMessage(const Json& value, size_t most);
// A string as JSON writes it, with its quotes. REQUIRES: valid UTF-8.
std::string PrintJsonString(std::string_view text);

}  // namespace moonlit
