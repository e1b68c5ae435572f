// SPDX-License-Identifier: Apache-2.0
#include "runtime/gguf/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>

#include "runtime/base/log.h"
#include "runtime/base/quote.h"

namespace moonlit {
namespace {

static_assert(std::endian::native == std::endian::little,
              "GGUF is read in place: a big-endian machine needs a converting reader");

// Plausibility: the largest published models have tens of keys, a few thousand tensors and 20 MiB of vocabulary.
constexpr uint64_t kMaxEntries = uint64_t{1} << 20;
constexpr uint64_t kMaxHeaderBytes = uint64_t{512} << 20;
constexpr uint64_t kMaxNameBytes = 65535;
constexpr uint64_t kMaxAlignment = uint64_t{2} << 20;
constexpr uint64_t kMaxElements = INT64_MAX;

// The least an entry takes: key length and one byte of it, value type, one byte of value.
constexpr uint64_t kLeastValueBytes = 8 + 1 + 4 + 1;
// Name length and one byte of it, rank, one dimension, type, offset.
constexpr uint64_t kLeastTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

constexpr uint64_t kFirstChunk = uint64_t{64} << 10;
constexpr uint64_t kLargestChunk = uint64_t{4} << 20;

}  // namespace

std::string GgufParser::Where(const char* field, uint64_t offset) const {
  std::string text = file_.path_ + ": ";
  if (has_name_) {
    text += std::string(section_) + " " + QuoteForMessage(View(name_)) + ": ";
  } else if (index_ != 0) {
    text += std::string(section_) + " " + std::to_string(index_) + ": ";
  }
  return text + field + " at offset " + std::to_string(offset);
}

Status GgufParser::Corrupt(const char* field, uint64_t offset, const char* format, ...) const {
  va_list args;
  va_start(args, format);
  const std::string reason = FormatMessage(format, args);
  va_end(args);
  return Status(Code::kCorrupt,
                Where(field, offset) + ": " + reason + "; the file is damaged, download or convert it again");
}

Status GgufParser::Need(uint64_t bytes, const char* field) {
  const uint64_t left = file_.file_bytes_ - position_;
  if (bytes > left) {
    return Corrupt(field, position_,
                   "expected %" PRIu64 " bytes, found %" PRIu64 " before the end of the file (%" PRIu64
                   " bytes in all)",
                   bytes, left, file_.file_bytes_);
  }
  if (position_ + bytes > kMaxHeaderBytes) {
    return Errorf(Code::kUnsupported,
                  "%s: expected a header of at most %" PRIu64 " bytes, found one that needs %" PRIu64 " or more",
                  Where(field, position_).c_str(), kMaxHeaderBytes, position_ + bytes);
  }
  return Fill(position_ + bytes);
}

Status GgufParser::Fill(uint64_t end) {
  if (file_.in_memory_ || end <= file_.storage_.size()) return Status();
  const uint64_t have = file_.storage_.size();
  const uint64_t chunk = std::clamp(have, kFirstChunk, kLargestChunk);
  const uint64_t want = std::min(file_.file_bytes_, std::max(end, have + chunk));
  file_.storage_.resize(static_cast<size_t>(want));
  return file_.file_.ReadAt(have, file_.storage_.data() + have, static_cast<size_t>(want - have));
}

Status GgufParser::TakeName(const char* field, Text* name) {
  const uint64_t at = position_;
  uint64_t length = 0;
  MOONLIT_RETURN_IF_ERROR(Take(field, &length));
  if (length == 0 || length > kMaxNameBytes) {
    return Corrupt(field, at, "expected a length of 1 to %" PRIu64 ", found %" PRIu64, kMaxNameBytes, length);
  }
  MOONLIT_RETURN_IF_ERROR(Need(length, field));
  *name = {static_cast<uint32_t>(position_), static_cast<uint32_t>(length)};
  position_ += length;
  name_ = *name;
  has_name_ = true;
  return Status();
}

Status GgufParser::CheckCount(uint64_t count, uint64_t limit, uint64_t least_bytes, const char* field,
                              uint64_t offset) {
  const uint64_t left = file_.file_bytes_ - position_;
  const uint64_t fits = std::min(limit, left / least_bytes);
  if (count <= fits) return Status();
  return Corrupt(field, offset,
                 "expected at most %" PRIu64 " (%" PRIu64 " of the file's %" PRIu64 " bytes are left), found %" PRIu64,
                 fits, left, file_.file_bytes_, count);
}

Status GgufParser::ParsePreamble() {
  const uint64_t start_bytes = std::min<uint64_t>(file_.file_bytes_, 64);
  MOONLIT_RETURN_IF_ERROR(Fill(start_bytes));
  const std::string_view start(reinterpret_cast<const char*>(Bytes()), static_cast<size_t>(start_bytes));
  if (start.substr(0, 4) != "GGUF") {
    return Errorf(Code::kUnsupported, "%s: expected a GGUF file, found %s", file_.path_.c_str(),
                  DescribeForeignFile(start).c_str());
  }
  position_ = 4;
  MOONLIT_RETURN_IF_ERROR(Take("version", &file_.version_));
  if (file_.version_ == 1) {
    return Errorf(Code::kUnsupported,
                  "%s: expected GGUF version 2 or 3, found version 1, which was in use for a few days of 2023; "
                  "download a newer file of the model or convert it again",
                  file_.path_.c_str());
  }
  if ((file_.version_ & 0xffff) == 0 && file_.version_ != 0) {
    return Errorf(Code::kUnsupported,
                  "%s: expected a little-endian GGUF file, found a big-endian one; download the little-endian "
                  "file of the model or convert it again",
                  file_.path_.c_str());
  }
  if (file_.version_ != 2 && file_.version_ != 3) {
    return Errorf(Code::kUnsupported,
                  "%s: expected GGUF version 2 or 3 at offset 4, found %" PRIu32
                  "; it is newer than this program "
                  "or damaged",
                  file_.path_.c_str(), file_.version_);
  }
  MOONLIT_RETURN_IF_ERROR(Take("tensor count", &tensor_count_));
  MOONLIT_RETURN_IF_ERROR(Take("key count", &value_count_));
  MOONLIT_RETURN_IF_ERROR(CheckCount(tensor_count_, kMaxEntries, kLeastTensorBytes, "tensor count", 8));
  return CheckCount(value_count_, kMaxEntries, kLeastValueBytes, "key count", 16);
}

Status GgufParser::ParseArray(GgufValue* value) {
  uint64_t at = position_;
  uint32_t element = 0;
  MOONLIT_RETURN_IF_ERROR(Take("element type", &element));
  if (element >= kGgufTypeCount)
    return Corrupt("element type", at, "expected a number below %u, found %" PRIu32, kGgufTypeCount, element);
  value->element = static_cast<GgufType>(element);
  if (value->element == GgufType::kArray) {
    return Errorf(Code::kUnsupported,
                  "%s: expected an array of plain values, found an array of arrays, which no known model has; "
                  "convert the file without this key",
                  Where("element type", at).c_str());
  }
  at = position_;
  MOONLIT_RETURN_IF_ERROR(Take("array length", &value->count));
  const size_t element_bytes = GgufTypeBytes(value->element);
  MOONLIT_RETURN_IF_ERROR(
      CheckCount(value->count, UINT64_MAX, element_bytes != 0 ? element_bytes : 8, "array length", at));
  value->position = static_cast<size_t>(position_);
  if (value->element != GgufType::kString) {
    MOONLIT_RETURN_IF_ERROR(Need(value->count * element_bytes, "array"));
    position_ += value->count * element_bytes;
    return CheckBools(*value);
  }
  value->strings = file_.string_positions_.size();
  for (uint64_t i = 0; i < value->count; ++i) {
    file_.string_positions_.push_back(static_cast<uint32_t>(position_));
    uint64_t length = 0;
    MOONLIT_RETURN_IF_ERROR(Take("length of a string", &length));
    MOONLIT_RETURN_IF_ERROR(Need(length, "string"));
    position_ += length;
  }
  return Status();
}

Status GgufParser::CheckBools(const GgufValue& value) {
  if (value.element != GgufType::kBool) return Status();
  for (uint64_t i = 0; i < value.count; ++i) {
    const uint8_t byte = Bytes()[value.position + i];
    if (byte > 1) return Corrupt("bool", value.position + i, "expected 0 or 1, found %u", byte);
  }
  return Status();
}

Status GgufParser::ParseValue() {
  Text key;
  GgufValue value{};
  MOONLIT_RETURN_IF_ERROR(TakeName("key", &key));
  const uint64_t at = position_;
  uint32_t type = 0;
  MOONLIT_RETURN_IF_ERROR(Take("value type", &type));
  if (type >= kGgufTypeCount)
    return Corrupt("value type", at, "expected a number below %u, found %" PRIu32, kGgufTypeCount, type);
  value.type = value.element = static_cast<GgufType>(type);
  value.count = 1;
  value.position = static_cast<size_t>(position_);
  if (value.type == GgufType::kArray) {
    MOONLIT_RETURN_IF_ERROR(ParseArray(&value));
  } else if (value.type == GgufType::kString) {
    value.strings = file_.string_positions_.size();
    file_.string_positions_.push_back(static_cast<uint32_t>(position_));
    uint64_t length = 0;
    MOONLIT_RETURN_IF_ERROR(Take("string length", &length));
    MOONLIT_RETURN_IF_ERROR(Need(length, "string"));
    position_ += length;
  } else {
    MOONLIT_RETURN_IF_ERROR(Need(GgufTypeBytes(value.type), "value"));
    position_ += GgufTypeBytes(value.type);
    MOONLIT_RETURN_IF_ERROR(CheckBools(value));
  }
  keys_.push_back(key);
  file_.values_.push_back(value);
  return Status();
}

Status GgufParser::ReadDims(GgufTensor* tensor, uint64_t* row) {
  uint64_t at = position_;
  uint32_t rank = 0;
  MOONLIT_RETURN_IF_ERROR(Take("number of dimensions", &rank));
  if (rank < 1 || rank > kGgufMaxRank) {
    return Corrupt("number of dimensions", at, "expected 1 to %zu, found %" PRIu32, kGgufMaxRank, rank);
  }
  tensor->rank = rank;
  uint64_t elements = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    at = position_;
    uint64_t dim = 0;
    MOONLIT_RETURN_IF_ERROR(Take("dimension", &dim));
    if (dim == 0) return Corrupt("dimension", at, "expected at least 1, found 0");
    if (__builtin_mul_overflow(elements, dim, &elements) || elements > kMaxElements) {
      return Corrupt("dimension", at,
                     "expected fewer than 2^63 elements in all, found dimension %" PRIu32 " = %" PRIu64, i + 1, dim);
    }
    tensor->dims[rank - 1 - i] = dim;
    if (i == 0) *row = dim;
  }
  return Status();
}

Status GgufParser::CheckSize(GgufTensor* tensor, uint64_t row, uint64_t offset) {
  const GgufTensorType& type = *tensor->type;
  if (row % type.block_values != 0) {
    return Corrupt("first dimension", offset,
                   "expected a multiple of %" PRIu32 ", the block of type %s, found %" PRIu64, type.block_values,
                   type.name, row);
  }
  uint64_t blocks = 1;
  for (size_t i = 0; i < tensor->rank; ++i) blocks *= tensor->dims[i];  // ReadDims proved that it fits
  blocks /= type.block_values;
  if (__builtin_mul_overflow(blocks, uint64_t{type.block_bytes}, &tensor->bytes) || tensor->bytes > kMaxElements) {
    return Corrupt("dimensions", offset,
                   "expected fewer than 2^63 bytes, found %" PRIu64 " blocks of %" PRIu32 " bytes", blocks,
                   type.block_bytes);
  }
  return Status();
}

Status GgufParser::ParseTensor() {
  Text name;
  GgufTensor tensor{};
  MOONLIT_RETURN_IF_ERROR(TakeName("name", &name));
  uint64_t row = 0;
  const uint64_t dims_at = position_ + sizeof(uint32_t);
  MOONLIT_RETURN_IF_ERROR(ReadDims(&tensor, &row));
  const uint64_t at = position_;
  uint32_t type = 0;
  MOONLIT_RETURN_IF_ERROR(Take("type", &type));
  tensor.type = FindGgufTensorType(type);
  if (tensor.type == nullptr) {
    return Errorf(Code::kUnsupported,
                  "%s: expected a tensor type that this program knows, found number %" PRIu32
                  "; use a newer version or a file in another format, for example Q4_0 or Q8_0",
                  Where("type", at).c_str(), type);
  }
  MOONLIT_RETURN_IF_ERROR(CheckSize(&tensor, row, dims_at));
  MOONLIT_RETURN_IF_ERROR(Take("data offset", &tensor.offset));
  names_.push_back(name);
  file_.tensors_.push_back(tensor);
  return Status();
}

Status GgufParser::ReadAlignment() {
  const GgufValue* value = file_.Find("general.alignment");
  if (value == nullptr) return Status();
  if (value->type != GgufType::kUint32) {
    return Corrupt("general.alignment", value->position, "expected uint32, found %s", GgufTypeName(value->type));
  }
  uint32_t alignment = 0;
  std::memcpy(&alignment, file_.header_ + value->position, sizeof(alignment));
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
    return Corrupt("general.alignment", value->position, "expected a power of two up to %" PRIu64 ", found %" PRIu32,
                   kMaxAlignment, alignment);
  }
  file_.alignment_ = alignment;
  return Status();
}

Status GgufParser::IndexNames() {
  const auto sort = [](std::vector<uint32_t>* order, size_t count, auto name_of) {
    order->resize(count);
    for (size_t i = 0; i < count; ++i) (*order)[i] = static_cast<uint32_t>(i);
    std::sort(order->begin(), order->end(), [&](uint32_t a, uint32_t b) { return name_of(a) < name_of(b); });
  };
  sort(&file_.values_by_key_, file_.values_.size(), [&](uint32_t i) { return file_.values_[i].key; });
  sort(&file_.tensors_by_name_, file_.tensors_.size(), [&](uint32_t i) { return file_.tensors_[i].name; });
  for (size_t i = 1; i < file_.values_.size(); ++i) {
    const uint32_t a = file_.values_by_key_[i - 1], b = file_.values_by_key_[i];
    if (file_.values_[a].key != file_.values_[b].key) continue;
    return Corrupt("second key of this name", keys_[std::max(a, b)].position, "expected every key once, found %s twice",
                   QuoteForMessage(file_.values_[a].key).c_str());
  }
  for (size_t i = 1; i < file_.tensors_.size(); ++i) {
    const uint32_t a = file_.tensors_by_name_[i - 1], b = file_.tensors_by_name_[i];
    if (file_.tensors_[a].name != file_.tensors_[b].name) continue;
    return Corrupt("second tensor of this name", names_[std::max(a, b)].position,
                   "expected every tensor once, found %s twice", QuoteForMessage(file_.tensors_[a].name).c_str());
  }
  return Status();
}

Status GgufParser::PlaceTensors() {
  const uint64_t mask = file_.alignment_ - 1;
  file_.data_offset_ = (position_ + mask) & ~mask;  // both are small: no overflow
  uint64_t end = position_;
  for (size_t i = 0; i < file_.tensors_.size(); ++i) {
    GgufTensor& tensor = file_.tensors_[i];
    uint64_t last = 0;
    if (tensor.offset > INT64_MAX - file_.data_offset_ ||
        __builtin_add_overflow(tensor.offset + file_.data_offset_, tensor.bytes, &last) || last > INT64_MAX) {
      return Errorf(Code::kCorrupt,
                    "%s: tensor %s: expected data within 2^63 bytes, found offset %" PRIu64 " and %" PRIu64
                    " bytes; the file is damaged, download or convert it again",
                    file_.path_.c_str(), QuoteForMessage(tensor.name).c_str(), tensor.offset, tensor.bytes);
    }
    tensor.offset += file_.data_offset_;
    end = std::max(end, last);
  }
  MOONLIT_RETURN_IF_ERROR(CheckExtents(end));
  MOONLIT_RETURN_IF_ERROR(CheckOverlaps());
  WarnOfOddities(end);
  return Status();
}

Status GgufParser::CheckExtents(uint64_t end) {
  if (end <= file_.file_bytes_) return Status();
  const GgufTensor* first = nullptr;
  size_t missing = 0;
  for (const GgufTensor& tensor : file_.tensors_) {
    if (tensor.offset + tensor.bytes <= file_.file_bytes_) continue;
    ++missing;
    if (first == nullptr || tensor.offset < first->offset) first = &tensor;
  }
  return Errorf(Code::kCorrupt,
                "%s: expected %" PRIu64 " bytes by its header, found %" PRIu64
                ": %zu of %zu tensors are missing or cut, "
                "the first is %s (%" PRIu64 " bytes at offset %" PRIu64
                "); the file is cut short or damaged, download it again",
                file_.path_.c_str(), end, file_.file_bytes_, missing, file_.tensors_.size(),
                QuoteForMessage(first->name).c_str(), first->bytes, first->offset);
}

Status GgufParser::CheckOverlaps() {
  std::vector<uint32_t> order(file_.tensors_by_name_);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return file_.tensors_[a].offset < file_.tensors_[b].offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = file_.tensors_[order[i - 1]];
    const GgufTensor& after = file_.tensors_[order[i]];
    if (after.offset - before.offset >= before.bytes) continue;
    return Errorf(Code::kCorrupt,
                  "%s: tensor %s: expected %" PRIu64 " bytes of its own at offset %" PRIu64
                  ", found tensor %s beginning "
                  "%" PRIu64 " bytes after it; the file is damaged, download or convert it again",
                  file_.path_.c_str(), QuoteForMessage(before.name).c_str(), before.bytes, before.offset,
                  QuoteForMessage(after.name).c_str(), after.offset - before.offset);
  }
  return Status();
}

// Published files with these faults read correctly, so they are no errors.
void GgufParser::WarnOfOddities(uint64_t end) const {
  for (const GgufTensor& tensor : file_.tensors_) {
    if ((tensor.offset & (file_.alignment_ - 1)) == 0) continue;
    Logf(LogLevel::kWarning,
         "%s: tensor %s lies at offset %" PRIu64 ", not a multiple of the file's alignment %" PRIu64,
         file_.path_.c_str(), QuoteForMessage(tensor.name).c_str(), tensor.offset, file_.alignment_);
    break;
  }
  if (file_.tensors_.empty() || file_.file_bytes_ - end < std::max<uint64_t>(file_.alignment_, 4096)) return;
  Logf(LogLevel::kWarning,
       "%s: %" PRIu64 " bytes follow the last tensor; a download that was resumed wrongly looks like this",
       file_.path_.c_str(), file_.file_bytes_ - end);
}

Status GgufParser::Finish() {
  file_.header_bytes_ = static_cast<size_t>(position_);
  if (!file_.in_memory_) {
    file_.storage_.resize(file_.header_bytes_);
    file_.storage_.shrink_to_fit();
  }
  file_.header_ = Bytes();
  for (size_t i = 0; i < keys_.size(); ++i) file_.values_[i].key = View(keys_[i]);
  for (size_t i = 0; i < names_.size(); ++i) file_.tensors_[i].name = View(names_[i]);
  section_ = "header";
  index_ = 0;
  has_name_ = false;
  MOONLIT_RETURN_IF_ERROR(IndexNames());
  MOONLIT_RETURN_IF_ERROR(ReadAlignment());
  return PlaceTensors();
}

Status GgufParser::Parse() {
  MOONLIT_RETURN_IF_ERROR(ParsePreamble());
  section_ = "key";
  for (index_ = 1; index_ <= value_count_; ++index_) {
    has_name_ = false;
    MOONLIT_RETURN_IF_ERROR(ParseValue());
  }
  section_ = "tensor";
  for (index_ = 1; index_ <= tensor_count_; ++index_) {
    has_name_ = false;
    MOONLIT_RETURN_IF_ERROR(ParseTensor());
  }
  return Finish();
}

}  // namespace moonlit
