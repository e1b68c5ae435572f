// SPDX-License-Identifier: Apache-2.0
#include "runtime/safetensors/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "runtime/base/quote.h"
#include "runtime/safetensors/safetensors_header.h"

namespace moonlit {
namespace {

static_assert(std::endian::native == std::endian::little, "values are used as they lie in the file");

constexpr char kAdvice[] = "the file is damaged or incomplete, download it again";

// Bytes that type and shape need, or a Status when that is more than 2^63.
Result<uint64_t> BytesOf(const SafetensorsTensor& tensor, const std::string& path) {
  uint64_t bits = tensor.type->bits;
  bool overflow = false;
  // Zeros first, so that a shape with one is never too large.
  if (std::count(tensor.shape.begin(), tensor.shape.end(), uint64_t{0}) != 0) return uint64_t{0};
  for (uint64_t dim : tensor.shape) overflow |= __builtin_mul_overflow(bits, dim, &bits);
  if (overflow || bits % 8 != 0) {
    return Errorf(Code::kCorrupt, "file %s: tensor %s: its shape has no whole number of bytes below 2^61: %s",
                  path.c_str(), QuoteForMessage(tensor.name).c_str(), kAdvice);
  }
  return bits / 8;
}

// Sorted by place, the tensors follow one another from 0 to the end.
Status CheckPlaces(const std::vector<SafetensorsTensor>& tensors, uint64_t data_bytes, const std::string& path) {
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(tensors[a].offset, tensors[a].bytes) < std::pair(tensors[b].offset, tensors[b].bytes);
  });
  uint64_t end = 0;
  for (uint32_t i : order) {
    const SafetensorsTensor& tensor = tensors[i];
    if (tensor.offset != end) {
      return Errorf(Code::kCorrupt,
                    "file %s: tensor %s begins at byte %llu of the data, expected %llu (no gap, no overlap): %s",
                    path.c_str(), QuoteForMessage(tensor.name).c_str(), static_cast<unsigned long long>(tensor.offset),
                    static_cast<unsigned long long>(end), kAdvice);
    }
    // Both are below data_bytes or the sum is checked: no overflow.
    if (tensor.bytes > data_bytes - end) {
      return Errorf(Code::kCorrupt, "file %s: tensor %s needs %llu bytes at %llu of the data, which has %llu: %s",
                    path.c_str(), QuoteForMessage(tensor.name).c_str(), static_cast<unsigned long long>(tensor.bytes),
                    static_cast<unsigned long long>(end), static_cast<unsigned long long>(data_bytes), kAdvice);
    }
    end += tensor.bytes;
  }
  if (end == data_bytes) return Status();
  return Errorf(Code::kCorrupt, "file %s: the tensors have %llu bytes, but the data %llu: %s", path.c_str(),
                static_cast<unsigned long long>(end), static_cast<unsigned long long>(data_bytes), kAdvice);
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  MOONLIT_ASSIGN_OR_RETURN(file.file_, File::Open(path));
  file.file_bytes_ = file.file_.size();
  MOONLIT_RETURN_IF_ERROR(file.ReadHeader());
  return file;
}

Result<SafetensorsFile> SafetensorsFile::OpenMemory(const void* bytes, size_t size, const std::string& name) {
  SafetensorsFile file;
  file.path_ = name;
  file.in_memory_ = true;
  file.memory_ = static_cast<const uint8_t*>(bytes);
  file.file_bytes_ = size;
  MOONLIT_RETURN_IF_ERROR(file.ReadHeader());
  return file;
}

Status SafetensorsFile::ReadBytes(uint64_t offset, void* out, size_t size) const {
  if (!in_memory_) return file_.ReadAt(offset, out, size);
  std::memcpy(out, memory_ + offset, size);
  return Status();
}

Status SafetensorsFile::ReadHeader() {
  uint64_t length = 0;
  if (file_bytes_ < sizeof length) {
    return Errorf(Code::kCorrupt, "file %s: expected a safetensors file, found %llu bytes: %s", path_.c_str(),
                  static_cast<unsigned long long>(file_bytes_), kAdvice);
  }
  MOONLIT_RETURN_IF_ERROR(ReadBytes(0, &length, sizeof length));
  const uint64_t most = std::min(kSafetensorsMaxHeader, file_bytes_ - sizeof length);
  if (length > most) {
    return Errorf(Code::kCorrupt, "file %s: expected a header of at most %llu bytes, found %llu: %s", path_.c_str(),
                  static_cast<unsigned long long>(most), static_cast<unsigned long long>(length), kAdvice);
  }
  header_.resize(static_cast<size_t>(length));
  MOONLIT_RETURN_IF_ERROR(ReadBytes(sizeof length, header_.data(), header_.size()));
  MOONLIT_ASSIGN_OR_RETURN(tensors_, ParseSafetensorsHeader(header_, path_));
  std::sort(tensors_.begin(), tensors_.end(),
            [](const SafetensorsTensor& a, const SafetensorsTensor& b) { return a.name < b.name; });
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const SafetensorsTensor& tensor = tensors_[i];
    if (i != 0 && tensor.name == tensors_[i - 1].name) {
      return Errorf(Code::kCorrupt, "file %s: tensor %s stands twice: %s", path_.c_str(),
                    QuoteForMessage(tensor.name).c_str(), kAdvice);
    }
    MOONLIT_ASSIGN_OR_RETURN(const uint64_t needed, BytesOf(tensor, path_));
    if (needed == tensor.bytes) continue;
    return Errorf(Code::kCorrupt, "file %s: tensor %s: expected %llu bytes by its type and shape, found %llu: %s",
                  path_.c_str(), QuoteForMessage(tensor.name).c_str(), static_cast<unsigned long long>(needed),
                  static_cast<unsigned long long>(tensor.bytes), kAdvice);
  }
  const uint64_t data = sizeof length + length;
  MOONLIT_RETURN_IF_ERROR(CheckPlaces(tensors_, file_bytes_ - data, path_));
  for (SafetensorsTensor& tensor : tensors_) tensor.offset += data;
  return Status();
}

const SafetensorsTensor* SafetensorsFile::Find(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const SafetensorsTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return found == tensors_.end() || found->name != name ? nullptr : &*found;
}

Status SafetensorsFile::Read(const SafetensorsTensor& tensor, uint64_t offset, void* out, size_t size) const {
  if (offset > tensor.bytes || size > tensor.bytes - offset) {
    return Errorf(Code::kInvalidArgument, "file %s: bytes %llu + %zu are outside tensor %s of %llu", path_.c_str(),
                  static_cast<unsigned long long>(offset), size, QuoteForMessage(tensor.name).c_str(),
                  static_cast<unsigned long long>(tensor.bytes));
  }
  return ReadBytes(tensor.offset + offset, out, size);
}

}  // namespace moonlit
