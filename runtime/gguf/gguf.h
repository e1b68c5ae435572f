// SPDX-License-Identifier: Apache-2.0
// Reads GGUF files, versions 2 and 3, little-endian (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), as untrusted
// input. Opening reads the header alone, by pread into one buffer that never grows past what the file really holds, and proves
// every count, length, dimension and extent before it is used; tensor bytes are read later, piece by piece.
//
//   MOONLIT_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open("model.gguf"));
//   MOONLIT_ASSIGN_OR_RETURN(uint32_t layers, file.GetU32("llama.block_count"));
//   const GgufTensor* tensor = file.FindTensor("output.weight");
//   if (tensor != nullptr) MOONLIT_RETURN_IF_ERROR(file.ReadTensor(*tensor, 0, staging, size));
//
// After a successful Open all of this holds: names and keys are unique and not empty; 1 <= rank <= 4; every dimension is at
// least 1; elements and bytes do not overflow; a row is whole blocks; each tensor lies inside the file; no two overlap.
// GGUF stores dimensions innermost first. They are reversed here and nowhere else: `dims` is row-major, outermost first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/status.h"
#include "runtime/gguf/gguf_types.h"

namespace moonlit {

inline constexpr size_t kGgufMaxRank = 4;

// Views point into the GgufFile and live as long as it does.
struct GgufTensor {
  std::string_view name;
  const GgufTensorType* type;  // never null; type->supported says whether this build computes with it
  size_t rank;
  std::array<uint64_t, kGgufMaxRank> dims;  // row-major: [outputs, inputs] for a matrix
  uint64_t offset;                          // from the start of the file
  uint64_t bytes;
};

struct GgufValue {
  std::string_view key;
  GgufType type;     // kArray for arrays
  GgufType element;  // of an array; else equal to `type`
  uint64_t count;    // elements of an array; else 1
  size_t position;   // of the value's first byte in the header (of a string: its length)
  size_t strings;    // first entry in the table of string positions, for strings and arrays of them
};

// An array of strings inside the header: no copies, constant-time access. Lives as long as the file.
class GgufStrings {
 public:
  size_t size() const { return count_; }
  std::string_view operator[](size_t i) const;

 private:
  friend class GgufFile;
  const uint8_t* header_ = nullptr;
  const uint32_t* positions_ = nullptr;
  size_t count_ = 0;
};

// Move only; const functions may be called from several threads at once.
class GgufFile {
 public:
  // kNotFound, kIo, kCorrupt (breaks the format, or cut short) or kUnsupported (another version or byte order, an unknown tensor
  // type, another kind of file), each naming file, field, offset, what was expected and found, and what to do.
  static Result<GgufFile> Open(const std::string& path);
  // The same for bytes in memory, which must outlive the object. `name` stands for the path in messages.
  static Result<GgufFile> OpenMemory(const void* bytes, size_t size, const std::string& name);

  GgufFile(GgufFile&&) noexcept = default;
  GgufFile& operator=(GgufFile&&) noexcept = default;

  const std::string& path() const { return path_; }
  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  uint64_t file_bytes() const { return file_bytes_; }
  uint64_t data_offset() const { return data_offset_; }  // where the tensor data begin
  // The bytes before the tensor data (for a hash).
  std::string_view header() const { return {reinterpret_cast<const char*>(header_), header_bytes_}; }
  // Null for memory.
  const File* file() const { return in_memory_ ? nullptr : &file_; }

  // ---- metadata, in file order
  const std::vector<GgufValue>& values() const { return values_; }
  const GgufValue* Find(std::string_view key) const;  // null when absent

  // Absent keys are kNotFound. Another type is kCorrupt and says which was expected and found. Integers of every width and sign
  // convert when the value fits, float64 to float32 (rounded) and back; nothing else converts. A scalar counts as an array of one.
  Result<uint32_t> GetU32(std::string_view key) const;
  Result<uint64_t> GetU64(std::string_view key) const;
  Result<int64_t> GetI64(std::string_view key) const;
  Result<float> GetF32(std::string_view key) const;
  Result<double> GetF64(std::string_view key) const;
  Result<bool> GetBool(std::string_view key) const;
  Result<std::string_view> GetString(std::string_view key) const;
  Result<GgufStrings> GetStringArray(std::string_view key) const;
  Result<std::vector<float>> GetF32Array(std::string_view key) const;
  Result<std::vector<int32_t>> GetI32Array(std::string_view key) const;
  Result<std::vector<int64_t>> GetI64Array(std::string_view key) const;
  // The value as it stands in the file, after its type (an array: after its length), for copying.
  std::string_view ValueBytes(const GgufValue& value) const;
  // For people: "32", "\"llama\"", "[1, 2, 3, ... 32000 in all]". Control characters are escaped, long strings cut.
  std::string Describe(const GgufValue& value, size_t max_elements = 8) const;

  // ---- tensors, in file order
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* FindTensor(std::string_view name) const;  // null when absent
  // Bytes [offset, offset + size) of the tensor. kInvalidArgument outside of it, kCorrupt on a short read, kIo.
  Status ReadTensor(const GgufTensor& tensor, uint64_t offset, void* out, size_t size) const;

 private:
  friend class GgufParser;
  GgufFile() = default;
  Result<const GgufValue*> Require(std::string_view key) const;
  Result<const GgufValue*> RequireScalar(std::string_view key, const char* expected) const;
  Status WrongType(const GgufValue& value, const char* expected) const;
  Result<uint64_t> GetInteger(std::string_view key, int64_t least, uint64_t most, const char* expected) const;
  template <typename T>
  Result<std::vector<T>> GetIntegers(std::string_view key, const char* expected) const;
  std::string_view StringAt(size_t index) const;
  std::string DescribeElement(const GgufValue& value, size_t index) const;

  std::string path_;
  File file_;
  bool in_memory_ = false;
  const uint8_t* memory_ = nullptr;  // the whole file when in_memory_
  std::vector<uint8_t> storage_;     // the header when read from a file
  const uint8_t* header_ = nullptr;  // storage_ or memory_
  size_t header_bytes_ = 0;
  uint64_t file_bytes_ = 0;
  uint64_t data_offset_ = 0;
  uint64_t alignment_ = kGgufDefaultAlignment;
  uint32_t version_ = 0;
  std::vector<GgufValue> values_;
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> values_by_key_;    // indices, sorted by key
  std::vector<uint32_t> tensors_by_name_;  // indices, sorted by name
  std::vector<uint32_t> string_positions_;
};

}  // namespace moonlit
