// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/read_everything.h"

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/weights/gguf_source.h"
#include "runtime/weights/rows.h"

namespace moonlit {
namespace {

void ReadValue(const GgufFile& file, const GgufValue& value) {
  MOONLIT_CHECK(file.Find(value.key) == &value);
  MOONLIT_CHECK(file.Describe(value, 3).size() < 2000);
  (void)file.GetU64(value.key).ok();
  (void)file.GetI64(value.key).ok();
  (void)file.GetF64(value.key).ok();
  (void)file.GetBool(value.key).ok();
  (void)file.GetString(value.key).ok();
  (void)file.GetI32Array(value.key).ok();
  (void)file.GetI64Array(value.key).ok();
  (void)file.GetF32Array(value.key).ok();
  Result<GgufStrings> strings = file.GetStringArray(value.key);
  if (!strings.ok()) return;
  size_t bytes = 0;
  for (size_t i = 0; i < strings->size(); ++i) bytes += (*strings)[i].size();
  MOONLIT_CHECK(bytes <= file.file_bytes());
}

void ReadTensor(const GgufFile& file, const GgufTensor& tensor) {
  MOONLIT_CHECK(file.FindTensor(tensor.name) == &tensor);
  MOONLIT_CHECK(tensor.rank >= 1 && tensor.rank <= kGgufMaxRank);
  MOONLIT_CHECK(tensor.bytes >= 1 && tensor.offset >= file.data_offset());
  MOONLIT_CHECK(tensor.offset + tensor.bytes <= file.file_bytes());
  std::vector<uint8_t> bytes(static_cast<size_t>(tensor.bytes));
  MOONLIT_CHECK(file.ReadTensor(tensor, 0, bytes.data(), bytes.size()).ok());
}

}  // namespace

bool ReadEverything(const uint8_t* bytes, size_t size) {
  Result<GgufFile> file = GgufFile::OpenMemory(bytes, size, "fuzz");
  if (!file.ok()) {
    MOONLIT_CHECK(!file.status().message().empty());
    return false;
  }
  for (const GgufValue& value : file->values()) ReadValue(*file, value);
  for (const GgufTensor& tensor : file->tensors()) ReadTensor(*file, tensor);
  Result<std::unique_ptr<GgufSource>> source = GgufSource::OpenMemory(bytes, size, "fuzz");
  if (source.ok()) {
    for (const TensorInfo* tensor : (*source)->All()) MOONLIT_CHECK(StagingBytes(*tensor) <= tensor->bytes);
  }
  return true;
}

}  // namespace moonlit
