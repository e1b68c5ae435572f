// SPDX-License-Identifier: Apache-2.0
#include "runtime/weights/metadata_map.h"

namespace moonlit {
namespace {

constexpr const char* kKinds[] = {"an integer", "a number", "true or false", "text",
                                  "texts",      "integers", "numbers",       "flags"};
static_assert(std::size(kKinds) == std::variant_size_v<MetadataMap::Value>);

}  // namespace

void MetadataMap::Set(std::string_view key, Value value) {
  const auto [place, added] = places_.emplace(key, entries_.size());
  if (added) {
    entries_.emplace_back(key, std::move(value));
  } else {
    entries_[place->second].second = std::move(value);
  }
}

const MetadataMap::Value* MetadataMap::Find(std::string_view key) const {
  const auto found = places_.find(key);
  return found == places_.end() ? nullptr : &entries_[found->second].second;
}

template <typename T>
Result<T> MetadataMap::Get(std::string_view key, const char* expected) const {
  const std::string name(key);
  const Value* value = Find(key);
  if (value == nullptr) return Errorf(Code::kNotFound, "the model's configuration gives no %s", name.c_str());
  if (const T* held = std::get_if<T>(value)) return *held;
  return Errorf(Code::kCorrupt, "%s: expected %s, found %s", name.c_str(), expected, kKinds[value->index()]);
}

bool MetadataMap::IsArray(std::string_view key) const {
  const Value* value = Find(key);
  return value != nullptr && value->index() >= 4;
}

Result<uint64_t> MetadataMap::GetUint(std::string_view key) const {
  MOONLIT_ASSIGN_OR_RETURN(const uint32_t value, Get<uint32_t>(key, "an integer"));
  return uint64_t{value};
}

Result<int64_t> MetadataMap::GetInt(std::string_view key) const {
  MOONLIT_ASSIGN_OR_RETURN(const uint32_t value, Get<uint32_t>(key, "an integer"));
  return int64_t{value};
}

Result<double> MetadataMap::GetFloat(std::string_view key) const {
  MOONLIT_ASSIGN_OR_RETURN(const float value, Get<float>(key, "a number"));
  return double{value};
}

Result<bool> MetadataMap::GetBool(std::string_view key) const { return Get<bool>(key, "true or false"); }

Result<std::string> MetadataMap::GetString(std::string_view key) const { return Get<std::string>(key, "text"); }

Result<std::vector<int64_t>> MetadataMap::GetInts(std::string_view key) const {
  const Value* value = Find(key);
  if (value != nullptr && std::holds_alternative<uint32_t>(*value))
    return std::vector<int64_t>{int64_t{std::get<uint32_t>(*value)}};
  if (value != nullptr && std::holds_alternative<std::vector<bool>>(*value)) {
    const auto& flags = std::get<std::vector<bool>>(*value);
    return std::vector<int64_t>(flags.begin(), flags.end());
  }
  MOONLIT_ASSIGN_OR_RETURN(const std::vector<int32_t> values, Get<std::vector<int32_t>>(key, "integers"));
  return std::vector<int64_t>(values.begin(), values.end());
}

Result<std::vector<float>> MetadataMap::GetFloats(std::string_view key) const {
  const Value* value = Find(key);
  if (value != nullptr && std::holds_alternative<float>(*value)) return std::vector<float>{std::get<float>(*value)};
  return Get<std::vector<float>>(key, "numbers");
}

Result<std::vector<std::string>> MetadataMap::GetStrings(std::string_view key) const {
  return Get<std::vector<std::string>>(key, "texts");
}

}  // namespace moonlit
