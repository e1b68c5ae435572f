// SPDX-License-Identifier: Apache-2.0
#include "runtime/json/json.h"

#include <bit>

#include "kernels/base/check.h"
#include "runtime/json/json_document.h"

namespace moonlit {

JsonType Json::type() const { return node_ == nullptr ? JsonType::kNull : node_->type; }

bool Json::AsBoolean() const {
  MOONLIT_CHECK(is_boolean());
  return node_->bits != 0;
}

int64_t Json::AsInteger() const {
  MOONLIT_CHECK(is_integer());
  MOONLIT_CHECK(!is_unsigned() || node_->bits <= uint64_t{INT64_MAX});
  return static_cast<int64_t>(node_->bits);
}

uint64_t Json::AsUnsigned() const {
  MOONLIT_CHECK(is_unsigned());
  return node_->bits;
}

double Json::AsDouble() const {
  MOONLIT_CHECK(is_number());
  if (is_unsigned()) return static_cast<double>(node_->bits);
  return is_integer() ? static_cast<double>(static_cast<int64_t>(node_->bits)) : std::bit_cast<double>(node_->bits);
}

std::string_view Json::AsString() const {
  MOONLIT_CHECK(is_string());
  return TextOf(*node_);
}

std::string_view Json::TextOf(const Node& node) const {
  return std::string_view(document_->text.data() + node.first(), node.size());
}

size_t Json::size() const { return is_array() || is_object() ? node_->size() : 0; }

Json Json::operator[](size_t i) const {
  MOONLIT_CHECK(i < size());
  return Json(document_, document_->nodes.data() + node_->first() + (is_object() ? 2 * i + 1 : i));
}

std::string_view Json::Key(size_t i) const {
  MOONLIT_CHECK(is_object() && i < size());
  return TextOf(document_->nodes[node_->first() + 2 * i]);
}

const Json::Node* Json::Find(std::string_view name) const {
  if (!is_object()) return nullptr;
  const Node* members = document_->nodes.data() + node_->first();
  size_t low = 0, high = size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const Node* member = members + 2 * size_t{members[2 * middle].sorted};
    const int order = TextOf(*member).compare(name);
    if (order == 0) return member + 1;
    if (order < 0) low = middle + 1;
    if (order > 0) high = middle;
  }
  return nullptr;
}

bool Json::Has(std::string_view name) const { return Find(name) != nullptr; }

Json Json::Get(std::string_view name) const {
  const Node* found = Find(name);
  return found == nullptr ? Json() : Json(document_, found);
}

namespace {

bool EqualNumbers(const Json& a, const Json& b) {
  if (!a.is_integer() || !b.is_integer()) return a.AsDouble() == b.AsDouble();
  if (a.is_unsigned() && b.is_unsigned()) return a.AsUnsigned() == b.AsUnsigned();
  if (!a.is_unsigned() && !b.is_unsigned()) return a.AsInteger() == b.AsInteger();
  return a.AsDouble() == 0 && b.AsDouble() == 0;  // "-0"; all others of the two kinds differ in sign
}

}  // namespace

// By recursion, which the depth of a document bounds.
bool operator==(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return EqualNumbers(a, b);
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_boolean()) return a.AsBoolean() == b.AsBoolean();
  if (a.is_string()) return a.AsString() == b.AsString();
  for (size_t i = 0; i < a.size(); ++i) {
    if (a.is_object() && !b.Has(a.Key(i))) return false;
    if (a[i] != (a.is_object() ? b.Get(a.Key(i)) : b[i])) return false;
  }
  return true;
}

}  // namespace moonlit
