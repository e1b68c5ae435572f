// SPDX-License-Identifier: Apache-2.0
// Builds GGUF bytes by hand for tests, well formed or broken, and remembers where each field lies so that a test can change it.
// Independent of runtime/gguf: it is what the reader and the writer are judged by.
//
//   GgufBytes b = SmallGguf();
//   b.PatchU64("tensor.0.dim.1", UINT64_MAX);
//   EXPECT_FALSE(GgufFile::OpenMemory(b.data(), b.size(), "x").ok());
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace moonlit {

// Little-endian bytes with named offsets. Fields are named by their place: "version", "tensor_count", "key_count",
// "key.2.length", "key.2.type", "key.2.element", "key.2.count", "key.2.value", "tensor.1.length", "tensor.1.rank",
// "tensor.1.dim.0" (innermost first, as in the file), "tensor.1.type", "tensor.1.offset", "data".
class GgufBytes {
 public:
  template <typename T>
  void Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void PutString(std::string_view text) {
    Put(static_cast<uint64_t>(text.size()));
    bytes_.append(text);
  }
  void Mark(const std::string& field) { fields_[field] = bytes_.size(); }

  // Preamble; the counts are those that the header claims.
  void Begin(uint64_t tensors, uint64_t keys, uint32_t version = 3);
  // The key and the type of its value, which the caller puts next.
  void Key(std::string_view key, uint32_t type);
  void ArrayOf(uint32_t element, uint64_t count);
  // Dimensions innermost first, as in the file.
  void Tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset);
  // Pads to the alignment, then `size` bytes 0, 1, 2, ... 250, 0, ...
  void Data(size_t size, size_t alignment = 32);

  size_t Offset(const std::string& field) const { return fields_.at(field); }
  bool Has(const std::string& field) const { return fields_.count(field) != 0; }
  const std::map<std::string, size_t>& fields() const { return fields_; }
  template <typename T>
  void Patch(const std::string& field, T value) {
    std::memcpy(bytes_.data() + Offset(field), &value, sizeof(value));
  }
  void PatchU32(const std::string& field, uint32_t value) { Patch(field, value); }
  void PatchU64(const std::string& field, uint64_t value) { Patch(field, value); }

  const char* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }
  std::string& bytes() { return bytes_; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  std::map<std::string, size_t> fields_;
  size_t keys_ = 0;
  size_t tensors_ = 0;
};

// A complete small file: one key of each value type and of each array kind that models have, and three tensors: "a" F32 [2, 8],
// "b" Q4_0 [4, 64], "c" F16 [8] (row-major). Data byte i of the data section is i % 251.
GgufBytes SmallGguf(uint32_t version = 3);

// A part of a split set: `number` from 0, one F32 [4] tensor of the name, and split.tensors.count.
GgufBytes SplitPart(uint16_t number, uint16_t count, int32_t tensors_in_all, std::string_view tensor);

}  // namespace moonlit
