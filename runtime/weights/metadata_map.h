// SPDX-License-Identifier: Apache-2.0
// Metadata that was made, not read from a GGUF file: by keys in the order they were set, with the types that GGUF has for them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/weights/metadata.h"

namespace moonlit {

// Filled by one thread; afterwards like any Metadata.
class MetadataMap : public Metadata {
 public:
  using Value = std::variant<uint32_t, float, bool, std::string, std::vector<std::string>, std::vector<int32_t>,
                             std::vector<float>, std::vector<bool>>;

  // A key that is there already gets the new value at its old place.
  void Set(std::string_view key, Value value);
  const std::vector<std::pair<std::string, Value>>& entries() const { return entries_; }

  bool Has(std::string_view key) const override { return Find(key) != nullptr; }
  bool IsArray(std::string_view key) const override;
  Result<uint64_t> GetUint(std::string_view key) const override;
  Result<int64_t> GetInt(std::string_view key) const override;
  Result<double> GetFloat(std::string_view key) const override;
  Result<bool> GetBool(std::string_view key) const override;
  Result<std::string> GetString(std::string_view key) const override;
  Result<std::vector<int64_t>> GetInts(std::string_view key) const override;
  Result<std::vector<float>> GetFloats(std::string_view key) const override;
  Result<std::vector<std::string>> GetStrings(std::string_view key) const override;

 private:
  const Value* Find(std::string_view key) const;
  template <typename T>
  Result<T> Get(std::string_view key, const char* expected) const;

  std::vector<std::pair<std::string, Value>> entries_;
  std::map<std::string, size_t, std::less<>> places_;
};

}  // namespace moonlit
