// SPDX-License-Identifier: Apache-2.0
#include "tests/support/altered_gguf.h"

#include <vector>

#include "kernels/base/check.h"
#include "runtime/gguf/gguf.h"

namespace moonlit::test {

void WriteAltered(const std::string& from, const GgufChange& change, const std::string& to) {
  const Result<GgufFile> file = GgufFile::Open(from);
  MOONLIT_CHECK(file.ok());
  GgufWriter writer;
  for (const GgufValue& value : file->values()) {
    if (value.key != change.key) writer.CopyValue(*file, value);
  }
  if (change.write) change.write(writer);
  for (const GgufTensor& tensor : file->tensors()) {
    const std::string name(tensor.name == change.tensor ? change.tensor_name : tensor.name);
    writer.AddTensor(name, tensor.type->format,
                     {tensor.dims.begin(), tensor.dims.begin() + static_cast<ptrdiff_t>(tensor.rank)});
  }
  MOONLIT_CHECK(writer.Begin(to).ok());
  for (const GgufTensor& tensor : file->tensors()) {
    std::vector<uint8_t> bytes(static_cast<size_t>(tensor.bytes));
    MOONLIT_CHECK(file->ReadTensor(tensor, 0, bytes.data(), bytes.size()).ok());
    MOONLIT_CHECK(writer.Append(bytes.data(), bytes.size()).ok());
  }
  MOONLIT_CHECK(writer.Finish().ok());
}

}  // namespace moonlit::test
