// SPDX-License-Identifier: Apache-2.0
#include "runtime/gguf/gguf_writer.h"

#include "runtime/base/quote.h"

#include <algorithm>
#include <bit>
#include <cinttypes>

namespace moonlit {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is written as it lies in memory");

template <typename T>
void Put(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void PutString(std::string* out, std::string_view text) {
  Put(out, static_cast<uint64_t>(text.size()));
  out->append(text);
}

template <typename T>
void PutAll(std::string* out, const std::vector<T>& values) {
  out->append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

uint64_t PaddingAfter(uint64_t size, uint64_t alignment) { return (alignment - size % alignment) % alignment; }

// Bytes of the tensor, or why there can be no such tensor.
Result<uint64_t> TensorBytes(const std::string& name, const GgufTensorType& type, const std::vector<uint64_t>& dims) {
  if (name.empty() || name.size() > 65535)
    return Errorf(Code::kInvalidArgument, "a tensor's name has 1 to 65535 bytes, not %zu", name.size());
  if (dims.empty() || dims.size() > kGgufMaxRank || std::count(dims.begin(), dims.end(), uint64_t{0}) != 0) {
    return Errorf(Code::kInvalidArgument, "tensor %s: expected 1 to %zu dimensions of at least 1",
                  QuoteForMessage(name).c_str(), kGgufMaxRank);
  }
  if (dims.back() % type.block_values != 0) {
    return Errorf(Code::kInvalidArgument,
                  "tensor %s: expected rows of a multiple of %" PRIu32 " values for %s, found %" PRIu64,
                  QuoteForMessage(name).c_str(), type.block_values, type.name, dims.back());
  }
  uint64_t bytes = 0;
  bool overflow = __builtin_mul_overflow(dims.back() / type.block_values, uint64_t{type.block_bytes}, &bytes);
  for (size_t i = 0; i + 1 < dims.size(); ++i) overflow |= __builtin_mul_overflow(bytes, dims[i], &bytes);
  if (overflow || bytes > INT64_MAX)
    return Errorf(Code::kInvalidArgument, "tensor %s: larger than any file", QuoteForMessage(name).c_str());
  return bytes;
}

}  // namespace

GgufWriter::GgufWriter(uint32_t alignment) : alignment_(alignment) {
  if (!std::has_single_bit(alignment)) {
    Mistake(Errorf(Code::kInvalidArgument, "the alignment of a GGUF file is a power of two, not %" PRIu32, alignment));
    alignment_ = kGgufDefaultAlignment;
  } else if (alignment != kGgufDefaultAlignment) {
    SetU32("general.alignment", alignment);
  }
}

void GgufWriter::Mistake(Status status) {
  if (mistake_.ok()) mistake_ = std::move(status);
}

void GgufWriter::StartValue(std::string_view key, GgufType type) {
  if (key.empty() || key.size() > 65535)
    Mistake(Errorf(Code::kInvalidArgument, "a key has 1 to 65535 bytes, not %zu", key.size()));
  if (!keys_.emplace(key).second)
    Mistake(Errorf(Code::kInvalidArgument, "key %s is set twice", QuoteForMessage(key).c_str()));
  PutString(&values_, key);
  Put(&values_, static_cast<uint32_t>(type));
  ++value_count_;
}

void GgufWriter::StartArray(std::string_view key, GgufType element, uint64_t count) {
  StartValue(key, GgufType::kArray);
  Put(&values_, static_cast<uint32_t>(element));
  Put(&values_, count);
}

template <typename T>
void GgufWriter::SetScalar(std::string_view key, GgufType type, T value) {
  StartValue(key, type);
  Put(&values_, value);
}

void GgufWriter::SetU8(std::string_view key, uint8_t value) { SetScalar(key, GgufType::kUint8, value); }
void GgufWriter::SetU16(std::string_view key, uint16_t value) { SetScalar(key, GgufType::kUint16, value); }
void GgufWriter::SetU32(std::string_view key, uint32_t value) { SetScalar(key, GgufType::kUint32, value); }
void GgufWriter::SetI32(std::string_view key, int32_t value) { SetScalar(key, GgufType::kInt32, value); }
void GgufWriter::SetU64(std::string_view key, uint64_t value) { SetScalar(key, GgufType::kUint64, value); }
void GgufWriter::SetI64(std::string_view key, int64_t value) { SetScalar(key, GgufType::kInt64, value); }
void GgufWriter::SetF32(std::string_view key, float value) { SetScalar(key, GgufType::kFloat32, value); }
void GgufWriter::SetF64(std::string_view key, double value) { SetScalar(key, GgufType::kFloat64, value); }
void GgufWriter::SetBool(std::string_view key, bool value) {
  SetScalar(key, GgufType::kBool, static_cast<uint8_t>(value));
}

void GgufWriter::SetString(std::string_view key, std::string_view value) {
  StartValue(key, GgufType::kString);
  PutString(&values_, value);
}

void GgufWriter::SetU32Array(std::string_view key, const std::vector<uint32_t>& values) {
  StartArray(key, GgufType::kUint32, values.size());
  PutAll(&values_, values);
}

void GgufWriter::SetI32Array(std::string_view key, const std::vector<int32_t>& values) {
  StartArray(key, GgufType::kInt32, values.size());
  PutAll(&values_, values);
}

void GgufWriter::SetF32Array(std::string_view key, const std::vector<float>& values) {
  StartArray(key, GgufType::kFloat32, values.size());
  PutAll(&values_, values);
}

void GgufWriter::SetBoolArray(std::string_view key, const std::vector<bool>& values) {
  StartArray(key, GgufType::kBool, values.size());
  for (const bool value : values) Put(&values_, static_cast<uint8_t>(value));
}

void GgufWriter::SetStringArray(std::string_view key, const std::vector<std::string>& values) {
  StartArray(key, GgufType::kString, values.size());
  for (const std::string& value : values) PutString(&values_, value);
}

void GgufWriter::CopyValue(const GgufFile& file, const GgufValue& value) {
  if (value.key == "general.alignment") return;  // ours is the constructor's
  if (value.type == GgufType::kArray) {
    StartArray(value.key, value.element, value.count);
  } else {
    StartValue(value.key, value.type);
  }
  values_.append(file.ValueBytes(value));
}

void GgufWriter::AddTensor(std::string_view name, Format format, const std::vector<uint64_t>& dims) {
  const GgufTensorType* type = nullptr;
  for (uint32_t id = 0; type == nullptr || !type->supported || type->format != format; ++id)
    type = FindGgufTensorType(id);
  Tensor tensor{std::string(name), type->id, dims, 0};
  if (!names_.emplace(name).second)
    Mistake(Errorf(Code::kInvalidArgument, "tensor %s is added twice", QuoteForMessage(name).c_str()));
  Result<uint64_t> bytes = TensorBytes(tensor.name, *type, dims);
  if (bytes.ok()) {
    tensor.bytes = bytes.value();
  } else {
    Mistake(bytes.status());
  }
  tensors_.push_back(std::move(tensor));
}

uint64_t GgufWriter::tensor_bytes() const {
  uint64_t sum = 0;
  for (const Tensor& tensor : tensors_) sum += tensor.bytes;
  return sum;
}

std::string GgufWriter::Header() const {
  if (!mistake_.ok()) return std::string();
  std::string out = "GGUF";
  Put(&out, kGgufVersion);
  Put(&out, static_cast<uint64_t>(tensors_.size()));
  Put(&out, value_count_);
  out += values_;
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    PutString(&out, tensor.name);
    Put(&out, static_cast<uint32_t>(tensor.dims.size()));
    for (size_t i = tensor.dims.size(); i-- > 0;) Put(&out, tensor.dims[i]);
    Put(&out, tensor.type);
    Put(&out, offset);
    offset += tensor.bytes + PaddingAfter(tensor.bytes, alignment_);
  }
  out.append(static_cast<size_t>(PaddingAfter(out.size(), alignment_)), '\0');
  return out;
}

Status GgufWriter::Begin(const std::string& path) {
  MOONLIT_RETURN_IF_ERROR(mistake_);
  path_ = path;
  MOONLIT_ASSIGN_OR_RETURN(file_, AtomicFile::Create(path));
  const std::string header = Header();
  return file_.Append(header.data(), header.size());
}

Status GgufWriter::Pad() {
  const std::string zeros(static_cast<size_t>(PaddingAfter(file_.size(), alignment_)), '\0');
  return file_.Append(zeros.data(), zeros.size());
}

Status GgufWriter::Append(const void* bytes, size_t size) {
  const char* next = static_cast<const char*>(bytes);
  while (size != 0) {
    if (current_ == tensors_.size()) {
      return Errorf(Code::kInvalidArgument, "%s: %zu bytes more than its tensors have", path_.c_str(), size);
    }
    const Tensor& tensor = tensors_[current_];
    const size_t piece = static_cast<size_t>(std::min<uint64_t>(size, tensor.bytes - written_));
    MOONLIT_RETURN_IF_ERROR(file_.Append(next, piece));
    next += piece;
    size -= piece;
    written_ += piece;
    if (written_ < tensor.bytes) continue;
    MOONLIT_RETURN_IF_ERROR(Pad());
    ++current_;
    written_ = 0;
  }
  return Status();
}

Status GgufWriter::Finish() {
  if (current_ != tensors_.size()) {
    const Tensor& tensor = tensors_[current_];
    return Errorf(Code::kInvalidArgument, "%s: tensor %s: expected %" PRIu64 " bytes, got %" PRIu64, path_.c_str(),
                  QuoteForMessage(tensor.name).c_str(), tensor.bytes, written_);
  }
  return file_.Commit();
}

}  // namespace moonlit
