// SPDX-License-Identifier: Apache-2.0
// A model's metadata by key, whatever the file (GGUF, or config.json by way of metadata_map.h). Keys are GGUF's
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), for example "llama.block_count".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace moonlit {

// Immutable; thread safe. An absent key is kNotFound, another type than asked for kCorrupt with expected and found; integers of
// any width and sign convert when the value fits.
class Metadata {
 public:
  virtual ~Metadata() = default;
  virtual bool Has(std::string_view key) const = 0;
  virtual bool IsArray(std::string_view key) const = 0;  // false when absent
  // One value; an array is another type, even an array of one.
  virtual Result<uint64_t> GetUint(std::string_view key) const = 0;
  virtual Result<int64_t> GetInt(std::string_view key) const = 0;
  virtual Result<double> GetFloat(std::string_view key) const = 0;
  virtual Result<bool> GetBool(std::string_view key) const = 0;
  virtual Result<std::string> GetString(std::string_view key) const = 0;
  // A scalar counts as an array of one. Of flags: 0 and 1.
  virtual Result<std::vector<int64_t>> GetInts(std::string_view key) const = 0;
  virtual Result<std::vector<float>> GetFloats(std::string_view key) const = 0;
  virtual Result<std::vector<std::string>> GetStrings(std::string_view key) const = 0;
};

}  // namespace moonlit
