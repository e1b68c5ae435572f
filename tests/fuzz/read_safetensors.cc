// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/read_safetensors.h"

#include <vector>

#include "runtime/safetensors/safetensors.h"

namespace moonlit {

bool ReadSafetensors(const uint8_t* bytes, size_t size) {
  const Result<SafetensorsFile> file = SafetensorsFile::OpenMemory(bytes, size, "fuzz");
  if (!file.ok()) {
    MOONLIT_CHECK(!file.status().message().empty());
    return false;
  }
  uint64_t sum = 0;
  for (const SafetensorsTensor& tensor : file->tensors()) {
    MOONLIT_CHECK(!tensor.name.empty() && file->Find(tensor.name) == &tensor);
    MOONLIT_CHECK(tensor.offset >= 8 + file->header().size() && tensor.offset <= size);
    MOONLIT_CHECK(tensor.bytes <= size - tensor.offset);
    std::vector<uint8_t> values(static_cast<size_t>(tensor.bytes));
    MOONLIT_CHECK(file->Read(tensor, 0, values.data(), values.size()).ok());
    MOONLIT_CHECK(!file->Read(tensor, tensor.bytes, values.data(), 1).ok());
    sum += tensor.bytes;
  }
  MOONLIT_CHECK(8 + file->header().size() + sum == size);
  return true;
}

}  // namespace moonlit
