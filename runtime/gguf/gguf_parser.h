// SPDX-License-Identifier: Apache-2.0
// The header walk behind GgufFile::Open; private to this folder. Bytes come by pread in growing chunks, so a header that lies
// about a length costs no more memory than the file has bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/gguf/gguf.h"

namespace moonlit {

// One use: Parse() fills the file or says why not. The GgufFile's path_, file_ or memory_, and file_bytes_ are set before.
class GgufParser {
 public:
  explicit GgufParser(GgufFile* file) : file_(*file) {}
  Status Parse();

 private:
  struct Text {  // bytes inside the header, which may still move in memory
    uint32_t position = 0;
    uint32_t length = 0;
  };

  Status ParsePreamble();
  Status CheckCount(uint64_t count, uint64_t limit, uint64_t least_bytes, const char* field, uint64_t offset);
  Status ParseValue();
  Status ParseArray(GgufValue* value);
  Status CheckBools(const GgufValue& value);
  Status ParseTensor();
  Status ReadDims(GgufTensor* tensor, uint64_t* row);
  Status CheckSize(GgufTensor* tensor, uint64_t row, uint64_t offset);
  Status Finish();
  Status ReadAlignment();
  Status IndexNames();
  Status PlaceTensors();
  Status CheckExtents(uint64_t end);
  Status CheckOverlaps();
  void WarnOfOddities(uint64_t end) const;

  // Makes `bytes` bytes at position_ readable, or says that the file ends too early.
  Status Need(uint64_t bytes, const char* field);
  Status Fill(uint64_t end);
  template <typename T>
  Status Take(const char* field, T* value) {
    MOONLIT_RETURN_IF_ERROR(Need(sizeof(T), field));
    std::memcpy(value, Bytes() + position_, sizeof(T));
    position_ += sizeof(T);
    return Status();
  }
  Status TakeName(const char* field, Text* name);
  const uint8_t* Bytes() const { return file_.in_memory_ ? file_.memory_ : file_.storage_.data(); }
  std::string_view View(const Text& text) const {
    return {reinterpret_cast<const char*>(Bytes()) + text.position, text.length};
  }
  // "x.gguf: tensor \"a\" (3 of 9): dimension 2 at offset 1234"
  std::string Where(const char* field, uint64_t offset) const;
  __attribute__((format(printf, 4, 5))) Status Corrupt(const char* field, uint64_t offset, const char* format,
                                                       ...) const;

  GgufFile& file_;
  uint64_t position_ = 0;
  uint64_t tensor_count_ = 0;
  uint64_t value_count_ = 0;
  const char* section_ = "header";  // what Where() calls the present entry
  uint64_t index_ = 0;              // of it
  bool has_name_ = false;
  Text name_;
  std::vector<Text> keys_;
  std::vector<Text> names_;
};

// Says what a file without GGUF's magic is, from its first bytes: a web page, safetensors, a Git LFS pointer...
std::string DescribeForeignFile(std::string_view start);

}  // namespace moonlit
