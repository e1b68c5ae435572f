// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/metadata_texts.h"

#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/json/json.h"
#include "runtime/text/utf8.h"

namespace moonlit {
namespace {

template <typename Number>
std::string NumberText(Number value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}
std::string NumberText(bool value) { return value ? "true" : "false"; }

std::string LengthText(uint64_t count) { return "[... " + std::to_string(count) + " in all]"; }

// element(i): a number, a flag or a string of the array.
template <typename Element>
std::string ArrayText(size_t count, const Element& element) {
  if (count > kMostListed) return LengthText(count);
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) text += ',';
    if constexpr (std::is_convertible_v<decltype(element(i)), std::string_view>) {
      if (!Utf8IsValid(element(i))) return LengthText(count);
      text += PrintJsonString(element(i));
    } else {
      text += NumberText(element(i));
    }
  }
  return text + "]";
}

// What was read of an array; what could not be (whole numbers beyond 64 bits with a sign) is told by its length.
template <typename List>
std::string ArrayText(const Result<List>& list, const GgufValue& value) {
  if (!list.ok()) return LengthText(value.count);
  return ArrayText(list->size(), [&](size_t i) { return (*list)[i]; });
}

std::string ArrayText(const GgufFile& file, const GgufValue& value) {
  if (value.count > kMostListed) return LengthText(value.count);
  switch (value.element) {
    case GgufType::kString:
      return ArrayText(file.GetStringArray(value.key), value);
    case GgufType::kFloat32:
    case GgufType::kFloat64:
      return ArrayText(file.GetF32Array(value.key), value);
    case GgufType::kBool:
      return ArrayText(file.ValueBytes(value).size(), [&](size_t i) { return file.ValueBytes(value)[i] != 0; });
    default:
      return ArrayText(file.GetI64Array(value.key), value);
  }
}

template <typename Value>
std::string ScalarText(const Result<Value>& value) {
  if constexpr (std::is_same_v<Value, std::string_view>) {
    return value.ok() ? std::string(*value) : "";
  } else {
    return value.ok() ? NumberText(*value) : "";
  }
}

std::string ScalarText(const GgufFile& file, const GgufValue& value) {
  switch (value.type) {
    case GgufType::kString:
      return ScalarText(file.GetString(value.key));
    case GgufType::kBool:
      return ScalarText(file.GetBool(value.key));
    case GgufType::kFloat32:
      return ScalarText(file.GetF32(value.key));
    case GgufType::kFloat64:
      return ScalarText(file.GetF64(value.key));
    case GgufType::kUint64:
      return ScalarText(file.GetU64(value.key));
    default:
      return ScalarText(file.GetI64(value.key));
  }
}

struct MapValueText {
  std::string operator()(const std::string& text) const { return text; }
  template <typename Element>
  std::string operator()(const std::vector<Element>& list) const {
    // An element of vector<bool> is no bool.
    return ArrayText(list.size(), [&](size_t i) -> decltype(auto) {
      if constexpr (std::is_same_v<Element, bool>) {
        return static_cast<bool>(list[i]);
      } else {
        return (list[i]);
      }
    });
  }
  template <typename Number>
  std::string operator()(Number value) const {
    return NumberText(value);
  }
};

}  // namespace

MetadataTexts TextsOf(const GgufFile& file) {
  MetadataTexts texts;
  texts.reserve(file.values().size());
  for (const GgufValue& value : file.values()) {
    texts.emplace_back(value.key, value.type == GgufType::kArray ? ArrayText(file, value) : ScalarText(file, value));
  }
  return texts;
}

MetadataTexts TextsOf(const MetadataMap& map) {
  MetadataTexts texts;
  texts.reserve(map.entries().size());
  for (const auto& [key, value] : map.entries()) texts.emplace_back(key, std::visit(MapValueText(), value));
  return texts;
}

}  // namespace moonlit
