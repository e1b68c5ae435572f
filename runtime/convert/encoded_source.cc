// SPDX-License-Identifier: Apache-2.0
#include "runtime/convert/encoded_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/base/checksum.h"
#include "runtime/weights/rows.h"

namespace moonlit {
namespace {

// Infinite in F16: what rounds to 65536.
constexpr float kTooLargeForF16 = 65520.0f;

// Importance of the tensor's columns, or null. An embedding's may have another size: nothing is multiplied by it there.
Result<const float*> FindImportance(const ImportanceMatrix* matrix, const TensorInfo& tensor) {
  if (matrix == nullptr) return static_cast<const float*>(nullptr);
  const auto found = matrix->rows.find(tensor.name);
  if (found == matrix->rows.end()) return static_cast<const float*>(nullptr);
  const size_t rank = tensor.shape.rank();
  const size_t experts = rank > 2 ? tensor.shape.rows() / tensor.shape[rank - 2] : 1;
  if (found->second.size() == experts * tensor.shape.columns()) return static_cast<const float*>(found->second.data());
  if (tensor.name == "token_embd.weight") return static_cast<const float*>(nullptr);
  return Errorf(Code::kInvalidArgument,
                "imatrix %s: expected %zu values for tensor %s %s, found %zu; it was made with another model",
                matrix->path.c_str(), experts * tensor.shape.columns(), tensor.name.c_str(),
                tensor.shape.ToString().c_str(), found->second.size());
}

// What is wrong with values that shall be encoded; -1: nothing.
ptrdiff_t FirstFault(const float* values, size_t count, float limit) {
  // NaN is not below, either.
  for (size_t i = 0; i < count; ++i) {
    if (!(std::fabs(values[i]) < limit)) return static_cast<ptrdiff_t>(i);
  }
  return -1;
}

// Below what weights must be. Where scales are F16, as in every block format but one, larger weights might fit, but no model has them.
float LimitOf(Format format) {
  const bool wide = format == Format::kF32 || format == Format::kBF16 || format == Format::kMXFP4;
  return wide ? INFINITY : kTooLargeForF16;
}

}  // namespace

Result<std::unique_ptr<EncodedSource>> EncodedSource::Create(std::shared_ptr<const WeightSource> base,
                                                             const std::vector<Format>& formats,
                                                             std::shared_ptr<const ImportanceMatrix> importance) {
  std::unique_ptr<EncodedSource> source(new EncodedSource);
  source->base_ = std::move(base);
  source->importance_ = std::move(importance);
  const std::vector<const TensorInfo*> tensors = source->base_->All();
  MOONLIT_CHECK(formats.size() == tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& from = *tensors[i];
    if (from.shape.columns() % Traits(formats[i]).block_values != 0) {
      return Errorf(Code::kInvalidArgument, "tensor %s: rows of %zu values do not fit blocks of %u (%s)",
                    from.name.c_str(), from.shape.columns(), Traits(formats[i]).block_values, Traits(formats[i]).name);
    }
    Entry entry{from, &from, nullptr};
    entry.info.format = formats[i];
    entry.info.bytes = uint64_t{from.shape.rows()} * RowBytes(formats[i], from.shape.columns());
    MOONLIT_ASSIGN_OR_RETURN(entry.importance, FindImportance(source->importance_.get(), from));
    source->entries_.push_back(std::move(entry));
  }
  for (size_t i = 0; i < source->entries_.size(); ++i) source->by_name_[source->entries_[i].info.name] = i;
  return source;
}

const TensorInfo* EncodedSource::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second].info;
}

std::vector<const TensorInfo*> EncodedSource::All() const {
  std::vector<const TensorInfo*> all;
  for (const Entry& entry : entries_) all.push_back(&entry.info);
  return all;
}

std::vector<std::string> EncodedSource::Files() const {
  std::vector<std::string> paths = base_->Files();
  if (importance_ != nullptr) paths.push_back(importance_->path);
  return paths;
}

Result<uint64_t> EncodedSource::Fingerprint() const {
  MOONLIT_ASSIGN_OR_RETURN(const uint64_t base, base_->Fingerprint());
  Checksum sum;
  sum.Add(&base, sizeof base);
  for (const Entry& entry : entries_) sum.Add(&entry.info.format, sizeof entry.info.format);
  return sum.Value();
}

Status EncodedSource::EncodeRows(const Entry& entry, size_t first, size_t rows, uint8_t* out) const {
  const TensorInfo& from = *entry.from;
  const size_t columns = from.shape.columns();
  const size_t from_bytes = TensorRowBytes(from), to_bytes = TensorRowBytes(entry.info);
  const bool same = entry.info.format == from.format;
  std::vector<uint8_t> staging(same ? 0 : rows * from_bytes);
  uint8_t* bytes = same ? out : staging.data();
  MOONLIT_RETURN_IF_ERROR(base_->Read(from, uint64_t{first} * from_bytes, bytes, rows * from_bytes));
  std::vector<float> values(columns);
  const size_t rank = from.shape.rank();
  // A matrix without experts has one set of importance for all its rows.
  const size_t expert_rows = rank > 2 ? from.shape[rank - 2] : from.shape.rows();
  const float limit = same ? INFINITY : LimitOf(entry.info.format);
  for (size_t r = 0; r < rows; ++r) {
    Traits(from.format).dequantize(bytes + r * from_bytes, values.data(), columns);
    if (const ptrdiff_t at = FirstFault(values.data(), columns, limit); at >= 0) {
      const float value = values[static_cast<size_t>(at)];
      return std::isfinite(value)
                 ? Errorf(Code::kUnsupported,
                          "%s: tensor %s, row %zu, column %td is %g: expected at most 65504, the most that F16 holds, "
                          "which %s is or has for scales; choose BF16 or F32",
                          description().c_str(), from.name.c_str(), first + r, at, static_cast<double>(value),
                          Traits(entry.info.format).name)
                 : Errorf(Code::kCorrupt,
                          "%s: tensor %s, row %zu, column %td is %g: expected numbers; the file is damaged",
                          description().c_str(), from.name.c_str(), first + r, at, static_cast<double>(value));
    }
    if (same) continue;
    const float* importance =
        entry.importance == nullptr ? nullptr : entry.importance + (first + r) / expert_rows * columns;
    Traits(entry.info.format).quantize(values.data(), importance, out + r * to_bytes, columns);
  }
  return Status();
}

Status EncodedSource::Read(const TensorInfo& tensor, uint64_t offset, void* out, size_t size) const {
  const auto found = by_name_.find(tensor.name);
  if (found == by_name_.end()) {
    return Errorf(Code::kInvalidArgument, "%s has no tensor %s to read", description().c_str(), tensor.name.c_str());
  }
  const Entry& entry = entries_[found->second];
  return ReadByRows(*this, entry.info, offset, out, size,
                    [&](size_t first, size_t rows, uint8_t* to) { return EncodeRows(entry, first, rows, to); });
}

}  // namespace moonlit
