// SPDX-License-Identifier: Apache-2.0
// The weights of a Hugging Face folder: model.safetensors, or the files that model.safetensors.index.json names
// ({"weight_map": {"tensor": "model-00001-of-00002.safetensors", ...}}), as one set of tensors by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/safetensors/safetensors.h"

namespace moonlit {

// A tensor and the file that has it. Lives as long as the set.
struct SafetensorsEntry {
  const SafetensorsTensor* tensor;
  const SafetensorsFile* file;
};

// Move only; const functions may be called from several threads at once.
class SafetensorsSet {
 public:
  // Errors are those of SafetensorsFile::Open, and: kNotFound (neither file nor index; parts that are missing, naming them), kCorrupt
  // (an index that is no such JSON, names a file outside of the folder, or a tensor that its file does not have; a tensor in two
  // files).
  static Result<SafetensorsSet> Open(const std::string& folder);

  SafetensorsSet() = default;  // without a tensor

  // In the order of names, over all files.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  // Null fields when absent.
  SafetensorsEntry Find(std::string_view name) const;
  const std::vector<SafetensorsFile>& files() const { return files_; }

 private:
  std::vector<SafetensorsFile> files_;  // never grows after opening
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace moonlit
