// SPDX-License-Identifier: Apache-2.0
// Reads safetensors files (https://github.com/huggingface/safetensors, "Format") as untrusted input: eight bytes with the length
// of a JSON header, the header, and the tensors' bytes. Opening reads the header alone; tensor bytes come later, by position.
//
//   MOONLIT_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open("model.safetensors"));
//   const SafetensorsTensor* tensor = file.Find("model.norm.weight");
//   if (tensor != nullptr) MOONLIT_RETURN_IF_ERROR(file.Read(*tensor, 0, staging, size));
//
// After a successful Open all of this holds: names are unique and not empty; a tensor's bytes are what its type and shape need,
// and lie inside the file; the tensors fill the data part without a gap or an overlap, as the format asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/quant/format.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace moonlit {

struct SafetensorsType {
  const char* name;  // "BF16"
  uint32_t bits;     // of one value
  bool supported;    // `format` means something
  Format format;
};
// Null for a name that the format does not have. The table is immutable.
const SafetensorsType* FindSafetensorsType(std::string_view name);

struct SafetensorsTensor {
  std::string name;
  const SafetensorsType* type;  // never null; type->supported says whether this build computes with it
  std::vector<uint64_t> shape;  // row-major, as in PyTorch; a dimension may be 0
  uint64_t offset;              // from the start of the file
  uint64_t bytes;
};

// Longer headers are refused, as the format's own library does.
inline constexpr uint64_t kSafetensorsMaxHeader = 100'000'000;

// Move only; const functions may be called from several threads at once.
class SafetensorsFile {
 public:
  // kNotFound, kIo; kCorrupt (breaks the format, or cut short); kUnsupported (a type of value that the format had not when this was
  // written). Messages name file, tensor, expected and found.
  static Result<SafetensorsFile> Open(const std::string& path);
  // The same for bytes in memory, which outlive the object.
  static Result<SafetensorsFile> OpenMemory(const void* bytes, size_t size, const std::string& name);

  SafetensorsFile(SafetensorsFile&&) noexcept = default;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept = default;

  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }
  // The bytes before the tensor data (for a hash).
  std::string_view header() const { return header_; }
  // Null for memory.
  const File* file() const { return in_memory_ ? nullptr : &file_; }

  // In the order of their names.
  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }
  const SafetensorsTensor* Find(std::string_view name) const;  // null when absent
  // Bytes [offset, offset + size) of the tensor. kInvalidArgument outside of it, kCorrupt on a short read, kIo.
  Status Read(const SafetensorsTensor& tensor, uint64_t offset, void* out, size_t size) const;

 private:
  SafetensorsFile() = default;
  Status ReadHeader();
  Status ReadBytes(uint64_t offset, void* out, size_t size) const;

  std::string path_;
  File file_;
  bool in_memory_ = false;
  const uint8_t* memory_ = nullptr;
  uint64_t file_bytes_ = 0;
  std::string header_;
  std::vector<SafetensorsTensor> tensors_;
};

}  // namespace moonlit
