// SPDX-License-Identifier: Apache-2.0
#include "runtime/gguf/gguf.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

#include "runtime/base/quote.h"
#include "runtime/gguf/gguf_parser.h"

namespace moonlit {
namespace {

// A vector that the input sizes: memory running out is a Status.
template <typename Function>
auto CatchOutOfMemory(const std::string& path, Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return Errorf(Code::kOutOfMemory, "%s: not enough memory for the file's metadata", path.c_str());
}

// An integer of any width as 64 bits of two's complement and its sign. False for other types.
bool LoadInteger(GgufType type, const uint8_t* at, uint64_t* bits, bool* negative) {
  const auto load = [&]<typename T>(T value) {
    std::memcpy(&value, at, sizeof(value));
    *negative = value < T{0};
    *bits = static_cast<uint64_t>(static_cast<int64_t>(value));
    return true;
  };
  switch (type) {
    case GgufType::kUint8:
      return load(uint8_t{});
    case GgufType::kInt8:
      return load(int8_t{});
    case GgufType::kUint16:
      return load(uint16_t{});
    case GgufType::kInt16:
      return load(int16_t{});
    case GgufType::kUint32:
      return load(uint32_t{});
    case GgufType::kInt32:
      return load(int32_t{});
    case GgufType::kUint64:
      return load(uint64_t{});
    case GgufType::kInt64:
      return load(int64_t{});
    default:
      return false;
  }
}

bool LoadFloat(GgufType type, const uint8_t* at, double* value) {
  if (type == GgufType::kFloat64) {
    std::memcpy(value, at, sizeof(*value));
    return true;
  }
  if (type != GgufType::kFloat32) return false;
  float narrow;
  std::memcpy(&narrow, at, sizeof(narrow));
  *value = narrow;
  return true;
}

bool IsInteger(GgufType type) {
  uint64_t bits;
  bool negative;
  const uint8_t zeros[8] = {};
  return LoadInteger(type, zeros, &bits, &negative);
}

// least <= value <= most, for a negative `least` or 0.
bool InRange(uint64_t bits, bool negative, int64_t least, uint64_t most) {
  return negative ? static_cast<int64_t>(bits) >= least : bits <= most;
}

std::string IntegerText(uint64_t bits, bool negative) {
  return negative ? std::to_string(static_cast<int64_t>(bits)) : std::to_string(bits);
}

}  // namespace

std::string_view GgufStrings::operator[](size_t i) const {
  const uint8_t* at = header_ + positions_[i];
  uint64_t length;
  std::memcpy(&length, at, sizeof(length));
  return {reinterpret_cast<const char*>(at) + sizeof(length), static_cast<size_t>(length)};
}

Result<GgufFile> GgufFile::Open(const std::string& path) {
  MOONLIT_ASSIGN_OR_RETURN(File opened, File::Open(path));
  return CatchOutOfMemory(path, [&]() -> Result<GgufFile> {
    GgufFile file;
    file.path_ = path;
    file.file_ = std::move(opened);
    file.file_bytes_ = file.file_.size();
    MOONLIT_RETURN_IF_ERROR(GgufParser(&file).Parse());
    return file;
  });
}

Result<GgufFile> GgufFile::OpenMemory(const void* bytes, size_t size, const std::string& name) {
  return CatchOutOfMemory(name, [&]() -> Result<GgufFile> {
    GgufFile file;
    file.path_ = name;
    file.in_memory_ = true;
    file.memory_ = static_cast<const uint8_t*>(bytes);
    file.file_bytes_ = size;
    MOONLIT_RETURN_IF_ERROR(GgufParser(&file).Parse());
    return file;
  });
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto found = std::lower_bound(values_by_key_.begin(), values_by_key_.end(), key,
                                      [this](uint32_t i, std::string_view wanted) { return values_[i].key < wanted; });
  if (found == values_by_key_.end() || values_[*found].key != key) return nullptr;
  return &values_[*found];
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors_by_name_.begin(), tensors_by_name_.end(), name,
                       [this](uint32_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  if (found == tensors_by_name_.end() || tensors_[*found].name != name) return nullptr;
  return &tensors_[*found];
}

Result<const GgufValue*> GgufFile::Require(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value != nullptr) return value;
  return Errorf(Code::kNotFound, "%s: expected the key %s, found none of that name", path_.c_str(),
                QuoteForMessage(key).c_str());
}

Result<const GgufValue*> GgufFile::RequireScalar(std::string_view key, const char* expected) const {
  MOONLIT_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (value->type == GgufType::kArray) return WrongType(*value, expected);
  return value;
}

Status GgufFile::WrongType(const GgufValue& value, const char* expected) const {
  const std::string found = value.type == GgufType::kArray ? std::string("an array of ") + GgufTypeName(value.element)
                                                           : std::string(GgufTypeName(value.type));
  return Errorf(Code::kCorrupt, "%s: key %s: expected %s, found %s", path_.c_str(), QuoteForMessage(value.key).c_str(),
                expected, found.c_str());
}

Result<uint64_t> GgufFile::GetInteger(std::string_view key, int64_t least, uint64_t most, const char* expected) const {
  MOONLIT_ASSIGN_OR_RETURN(const GgufValue* value, RequireScalar(key, expected));
  uint64_t bits = 0;
  bool negative = false;
  if (!LoadInteger(value->type, header_ + value->position, &bits, &negative)) return WrongType(*value, expected);
  if (InRange(bits, negative, least, most)) return bits;
  return Errorf(Code::kCorrupt, "%s: key %s: expected %s, found %s", path_.c_str(), QuoteForMessage(key).c_str(),
                expected, IntegerText(bits, negative).c_str());
}

Result<uint32_t> GgufFile::GetU32(std::string_view key) const {
  MOONLIT_ASSIGN_OR_RETURN(uint64_t bits, GetInteger(key, 0, UINT32_MAX, "an integer from 0 to 2^32 - 1"));
  return static_cast<uint32_t>(bits);
}

Result<uint64_t> GgufFile::GetU64(std::string_view key) const {
  return GetInteger(key, 0, UINT64_MAX, "an integer of at least 0");
}

Result<int64_t> GgufFile::GetI64(std::string_view key) const {
  MOONLIT_ASSIGN_OR_RETURN(uint64_t bits, GetInteger(key, INT64_MIN, INT64_MAX, "an integer below 2^63"));
  return static_cast<int64_t>(bits);
}

Result<double> GgufFile::GetF64(std::string_view key) const {
  MOONLIT_ASSIGN_OR_RETURN(const GgufValue* value, RequireScalar(key, "a float"));
  double wide = 0;
  if (!LoadFloat(value->type, header_ + value->position, &wide)) return WrongType(*value, "a float");
  return wide;
}

Result<float> GgufFile::GetF32(std::string_view key) const {
  MOONLIT_ASSIGN_OR_RETURN(double wide, GetF64(key));
  return static_cast<float>(wide);
}

Result<bool> GgufFile::GetBool(std::string_view key) const {
  MOONLIT_ASSIGN_OR_RETURN(const GgufValue* value, RequireScalar(key, "a bool"));
  if (value->type != GgufType::kBool) return WrongType(*value, "a bool");
  return header_[value->position] != 0;
}

std::string_view GgufFile::StringAt(size_t index) const {
  GgufStrings one;
  one.header_ = header_;
  one.positions_ = string_positions_.data() + index;
  return one[0];
}

Result<std::string_view> GgufFile::GetString(std::string_view key) const {
  MOONLIT_ASSIGN_OR_RETURN(const GgufValue* value, RequireScalar(key, "a string"));
  if (value->type != GgufType::kString) return WrongType(*value, "a string");
  return StringAt(value->strings);
}

Result<GgufStrings> GgufFile::GetStringArray(std::string_view key) const {
  MOONLIT_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (value->element != GgufType::kString) return WrongType(*value, "an array of strings");
  GgufStrings strings;
  strings.header_ = header_;
  strings.positions_ = string_positions_.data() + value->strings;
  strings.count_ = static_cast<size_t>(value->count);
  return strings;
}

Result<std::vector<float>> GgufFile::GetF32Array(std::string_view key) const {
  MOONLIT_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  double wide = 0;
  const size_t step = GgufTypeBytes(value->element);
  if (value->element != GgufType::kFloat32 && value->element != GgufType::kFloat64)
    return WrongType(*value, "an array of floats");
  return CatchOutOfMemory(path_, [&]() -> Result<std::vector<float>> {
    std::vector<float> floats(static_cast<size_t>(value->count));
    for (size_t i = 0; i < floats.size(); ++i) {
      LoadFloat(value->element, header_ + value->position + i * step, &wide);
      floats[i] = static_cast<float>(wide);
    }
    return floats;
  });
}

template <typename T>
Result<std::vector<T>> GgufFile::GetIntegers(std::string_view key, const char* expected) const {
  MOONLIT_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (!IsInteger(value->element)) return WrongType(*value, expected);
  return CatchOutOfMemory(path_, [&]() -> Result<std::vector<T>> {
    const size_t step = GgufTypeBytes(value->element);
    std::vector<T> integers(static_cast<size_t>(value->count));
    for (size_t i = 0; i < integers.size(); ++i) {
      uint64_t bits = 0;
      bool negative = false;
      LoadInteger(value->element, header_ + value->position + i * step, &bits, &negative);
      if (!InRange(bits, negative, std::numeric_limits<T>::min(),
                   static_cast<uint64_t>(std::numeric_limits<T>::max()))) {
        return Errorf(Code::kCorrupt, "%s: key %s: expected %s, found %s at index %zu", path_.c_str(),
                      QuoteForMessage(key).c_str(), expected, IntegerText(bits, negative).c_str(), i);
      }
      integers[i] = static_cast<T>(static_cast<int64_t>(bits));
    }
    return integers;
  });
}

Result<std::vector<int32_t>> GgufFile::GetI32Array(std::string_view key) const {
  return GetIntegers<int32_t>(key, "an array of integers of 32 bits");
}

Result<std::vector<int64_t>> GgufFile::GetI64Array(std::string_view key) const {
  return GetIntegers<int64_t>(key, "an array of integers");
}

std::string_view GgufFile::ValueBytes(const GgufValue& value) const {
  const char* begin = reinterpret_cast<const char*>(header_) + value.position;
  const size_t count = static_cast<size_t>(value.count);
  if (value.element != GgufType::kString) return {begin, count * GgufTypeBytes(value.element)};
  if (count == 0) return {begin, 0};
  const std::string_view last = StringAt(value.strings + count - 1);
  return {begin, static_cast<size_t>(last.data() + last.size() - begin)};
}

std::string GgufFile::DescribeElement(const GgufValue& value, size_t index) const {
  if (value.element == GgufType::kString) return QuoteForMessage(StringAt(value.strings + index));
  const uint8_t* at = header_ + value.position + index * GgufTypeBytes(value.element);
  if (value.element == GgufType::kBool) return *at != 0 ? "true" : "false";
  uint64_t bits = 0;
  bool negative = false;
  if (LoadInteger(value.element, at, &bits, &negative)) return IntegerText(bits, negative);
  double wide = 0;
  LoadFloat(value.element, at, &wide);
  char text[40];
  std::snprintf(text, sizeof(text), value.element == GgufType::kFloat32 ? "%.9g" : "%.17g", wide);
  return text;
}

std::string GgufFile::Describe(const GgufValue& value, size_t max_elements) const {
  if (value.type != GgufType::kArray) return DescribeElement(value, 0);
  std::string text = "[";
  const size_t shown = static_cast<size_t>(std::min<uint64_t>(value.count, max_elements));
  for (size_t i = 0; i < shown; ++i) {
    if (i != 0) text += ", ";
    text += DescribeElement(value, i);
  }
  if (shown < value.count)
    text += (shown == 0 ? "" : ", ") + std::string("... ") + std::to_string(value.count) + " in all";
  return text + "]";
}

Status GgufFile::ReadTensor(const GgufTensor& tensor, uint64_t offset, void* out, size_t size) const {
  if (offset > tensor.bytes || size > tensor.bytes - offset) {
    return Errorf(Code::kInvalidArgument, "%s: tensor %s has %" PRIu64 " bytes; can't read %zu at %" PRIu64,
                  path_.c_str(), QuoteForMessage(tensor.name).c_str(), tensor.bytes, size, offset);
  }
  if (in_memory_) {
    if (size != 0) std::memcpy(out, memory_ + tensor.offset + offset, size);
    return Status();
  }
  Status status = file_.ReadAt(tensor.offset + offset, out, size);
  return status.ok() ? status : status.WithContext("tensor " + QuoteForMessage(tensor.name));
}

}  // namespace moonlit
