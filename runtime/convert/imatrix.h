// SPDX-License-Identifier: Apache-2.0
// Importance matrices: for each matrix of a model, how large the values are that meet its columns (the mean of their squares),
// gathered by llama.cpp's llama-imatrix. Encoders weigh errors by them. Both of its file formats are read, as untrusted input:
// the old one (counted strings and floats) and GGUF (tensors NAME.in_sum2 and NAME.counts).
// (llama.cpp, tools/imatrix/imatrix.cpp.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace moonlit {

struct ImportanceMatrix {
  std::string path;
  std::string dataset;  // what it was gathered from; may be empty
  uint32_t chunks = 0;
  // By tensor: [columns], or [experts, columns] for a tensor of experts. Finite, not negative.
  std::map<std::string, std::vector<float>, std::less<>> rows;
};

// kNotFound, kIo; kCorrupt: neither format, cut short, a count or a value out of range, no entry, a name twice.
Result<ImportanceMatrix> ReadImportanceMatrix(const std::string& path);

}  // namespace moonlit
