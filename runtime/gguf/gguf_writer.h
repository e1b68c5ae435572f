// SPDX-License-Identifier: Apache-2.0
// Writes GGUF files, version 3, little-endian (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): metadata and the list
// of tensors first, then the tensors' bytes as a stream, so that nothing larger than a piece is held. The file appears complete
// or not at all (runtime/base/file.h).
//
//   GgufWriter writer;
//   writer.SetString("general.architecture", "llama");
//   writer.AddTensor("output_norm.weight", Format::kF32, {2048});
//   MOONLIT_RETURN_IF_ERROR(writer.Begin("out.gguf"));
//   MOONLIT_RETURN_IF_ERROR(writer.Append(bytes, size));   // every tensor's bytes, in the order added, in pieces of any size
//   MOONLIT_RETURN_IF_ERROR(writer.Finish());
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/status.h"
#include "runtime/gguf/gguf.h"

namespace moonlit {

// One thread at a time. A mistake of the caller (a key or tensor twice, a row that is no whole number of blocks) is remembered
// and returned by Begin, so that the calls before it need no checks.
class GgufWriter {
 public:
  // `alignment` of tensor data: a power of two; written as general.alignment unless it is the format's default.
  explicit GgufWriter(uint32_t alignment = kGgufDefaultAlignment);

  void SetU8(std::string_view key, uint8_t value);
  void SetU16(std::string_view key, uint16_t value);
  void SetU32(std::string_view key, uint32_t value);
  void SetI32(std::string_view key, int32_t value);
  void SetU64(std::string_view key, uint64_t value);
  void SetI64(std::string_view key, int64_t value);
  void SetF32(std::string_view key, float value);
  void SetF64(std::string_view key, double value);
  void SetBool(std::string_view key, bool value);
  void SetString(std::string_view key, std::string_view value);
  void SetU32Array(std::string_view key, const std::vector<uint32_t>& values);
  void SetI32Array(std::string_view key, const std::vector<int32_t>& values);
  void SetF32Array(std::string_view key, const std::vector<float>& values);
  void SetBoolArray(std::string_view key, const std::vector<bool>& values);
  void SetStringArray(std::string_view key, const std::vector<std::string>& values);
  // The value as it stands in another file, under its own key.
  void CopyValue(const GgufFile& file, const GgufValue& value);

  // `dims` is row-major, outermost first: [outputs, inputs].
  void AddTensor(std::string_view name, Format format, const std::vector<uint64_t>& dims);
  // The bytes that Append expects in all.
  uint64_t tensor_bytes() const;

  // kInvalidArgument for a remembered mistake; errors of AtomicFile. Call once.
  Status Begin(const std::string& path);
  // kInvalidArgument when more bytes come than the tensors have. Padding is written between tensors.
  Status Append(const void* bytes, size_t size);
  // kInvalidArgument when bytes are missing; else the file is on the disk under its name.
  Status Finish();

  // Everything before the tensor data, padded: what Begin writes. Empty after a mistake.
  std::string Header() const;

 private:
  struct Tensor {
    std::string name;
    uint32_t type;
    std::vector<uint64_t> dims;
    uint64_t bytes;
  };
  void StartValue(std::string_view key, GgufType type);
  void StartArray(std::string_view key, GgufType element, uint64_t count);
  template <typename T>
  void SetScalar(std::string_view key, GgufType type, T value);
  void Mistake(Status status);
  Status Pad();

  uint32_t alignment_;
  std::string values_;  // encoded
  uint64_t value_count_ = 0;
  std::set<std::string, std::less<>> keys_;
  std::set<std::string, std::less<>> names_;
  std::vector<Tensor> tensors_;
  Status mistake_;

  std::string path_;
  AtomicFile file_;
  size_t current_ = 0;    // tensor being written
  uint64_t written_ = 0;  // bytes of it
};

}  // namespace moonlit
