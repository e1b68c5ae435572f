// SPDX-License-Identifier: Apache-2.0
#include "runtime/convert/hugging_face_source.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>

#include "runtime/base/checksum.h"
#include "runtime/weights/fingerprint.h"
#include "runtime/weights/rows.h"

namespace moonlit {
namespace {

constexpr char kRopeDivisors[] = "rope_freqs.weight";

Status WrongShape(const std::string& folder, const MappedTensor& tensor, const SafetensorsTensor& found,
                  const std::string& expected) {
  std::string shape;
  for (uint64_t dim : found.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(dim);
  return Errorf(Code::kCorrupt, "folder %s: tensor %s (%s): expected %s, found [%s]", folder.c_str(),
                tensor.sources[0].c_str(), tensor.name.c_str(), expected.c_str(), shape.c_str());
}

}  // namespace

Result<std::unique_ptr<HuggingFaceSource>> HuggingFaceSource::Create(SafetensorsSet set,
                                                                     const std::vector<MappedTensor>& tensors,
                                                                     const std::vector<float>& rope_divisors,
                                                                     const std::string& folder) {
  std::unique_ptr<HuggingFaceSource> source(new HuggingFaceSource);
  source->set_ = std::move(set);
  source->folder_ = folder;
  source->rope_divisors_ = rope_divisors;
  if (!rope_divisors.empty()) {
    Entry entry = {};
    entry.info = {kRopeDivisors, Format::kF32, Shape{rope_divisors.size()}, rope_divisors.size() * sizeof(float)};
    source->entries_.push_back(std::move(entry));
  }
  for (const MappedTensor& tensor : tensors) MOONLIT_RETURN_IF_ERROR(source->AddTensor(tensor));
  for (size_t i = 0; i < source->entries_.size(); ++i) source->by_name_[source->entries_[i].info.name] = i;
  return source;
}

Status HuggingFaceSource::AddTensor(const MappedTensor& tensor) {
  Entry entry = {};
  for (const std::string& name : tensor.sources) {
    entry.parts.push_back(set_.Find(name));
    MOONLIT_CHECK(entry.parts.back().tensor != nullptr);
    const SafetensorsTensor& part = *entry.parts.back().tensor;
    const SafetensorsTensor& first = *entry.parts[0].tensor;
    if (!part.type->supported) {
      return Errorf(
          Code::kUnsupported,
          "folder %s: tensor %s is of type %s: this build reads F32, F16 and BF16; download the model in one of them",
          folder_.c_str(), name.c_str(), part.type->name);
    }
    if (part.shape != first.shape || part.type != first.type)
      return Errorf(Code::kCorrupt, "folder %s: tensor %s: expected type and shape of %s", folder_.c_str(),
                    name.c_str(), tensor.sources[0].c_str());
  }
  entry.info.name = tensor.name;
  entry.order = tensor.order;
  entry.add_one = tensor.add_one;
  MOONLIT_RETURN_IF_ERROR(SetShape(tensor, &entry));
  entry.widen = tensor.keep_f32 || entry.info.shape.rank() <= 1 || tensor.name.ends_with("_norm.weight");
  entry.info.format = entry.widen ? Format::kF32 : entry.parts[0].tensor->type->format;
  entry.info.bytes = uint64_t{entry.info.shape.rows()} * RowBytes(entry.info.format, entry.info.shape.columns());
  entries_.push_back(std::move(entry));
  return Status();
}

Status HuggingFaceSource::SetShape(const MappedTensor& tensor, Entry* entry) const {
  const SafetensorsTensor& part = *entry->parts[0].tensor;
  std::vector<uint64_t> dims = part.shape;
  const size_t stacked = entry->parts.size() > 1 ? 1 : 0;
  if (part.bytes == 0 || dims.empty() || dims.size() + stacked > Shape::kMaxRank)
    return WrongShape(folder_, tensor, part, "1 to 4 dimensions of at least 1");
  const bool half = tensor.order == RowOrder::kFirstHalf || tensor.order == RowOrder::kSecondHalf;
  // A bias is a column of rows with one value each.
  const size_t row_dim = dims.size() == 1 ? 0 : dims.size() - 2;
  if (half) {
    if (dims.size() < 2 || dims[row_dim] % 2 != 0) return WrongShape(folder_, tensor, part, "an even number of rows");
    dims[row_dim] /= 2;
    entry->group_rows = static_cast<size_t>(dims[row_dim]);
  }
  if (tensor.order == RowOrder::kRotary) {
    if (dims.size() > 2 || dims[0] % (2 * tensor.heads) != 0)
      return WrongShape(folder_, tensor, part, "rows for " + std::to_string(tensor.heads) + " heads of an even size");
    entry->group_rows = static_cast<size_t>(dims[0] / tensor.heads);
  }
  uint64_t elements = 1;
  for (uint64_t dim : dims) elements *= dim;  // no more than the file has bytes
  if (elements > std::numeric_limits<size_t>::max() / sizeof(float) / entry->parts.size())
    return WrongShape(folder_, tensor, part, "a tensor that this build's addresses reach");
  // Experts that lie one in a file tensor are stacked; a single one would have an outermost dimension of 1.
  if (stacked != 0) entry->info.shape.Append(entry->parts.size());
  for (uint64_t dim : dims) entry->info.shape.Append(static_cast<size_t>(dim));
  entry->part_rows = static_cast<size_t>(elements / dims.back());
  return Status();
}

const TensorInfo* HuggingFaceSource::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second].info;
}

std::vector<const TensorInfo*> HuggingFaceSource::All() const {
  std::vector<const TensorInfo*> all;
  for (const Entry& entry : entries_) all.push_back(&entry.info);
  return all;
}

size_t HuggingFaceSource::PartRow(const Entry& entry, size_t row) {
  const size_t group = entry.order == RowOrder::kSame ? 0 : row / entry.group_rows;
  const size_t inside = entry.order == RowOrder::kSame ? row : row % entry.group_rows;
  switch (entry.order) {
    case RowOrder::kSame:
      return row;
    case RowOrder::kRotary:
      return group * entry.group_rows + inside % 2 * (entry.group_rows / 2) + inside / 2;
    case RowOrder::kFirstHalf:
      return group * 2 * entry.group_rows + inside;
    case RowOrder::kSecondHalf:
      return (group * 2 + 1) * entry.group_rows + inside;
  }
  return row;
}

// Rows [first, first + count) of the tensor, which for a rotated vector are its values.
Status HuggingFaceSource::ReadRows(const Entry& entry, size_t first, size_t count, uint8_t* out) const {
  const bool vector = entry.info.shape.rank() <= 1;
  const bool by_value = vector && entry.order == RowOrder::kRotary;
  const size_t columns = entry.info.shape.columns();
  const Format from = entry.parts[0].tensor->type->format;
  const size_t from_bytes = RowBytes(from, columns), to_bytes = RowBytes(entry.info.format, columns);
  std::vector<uint8_t> row(entry.widen ? from_bytes : 0);
  for (size_t r = first; r < first + count;) {
    const SafetensorsEntry& part = entry.parts[r / entry.part_rows];
    const size_t inside = r % entry.part_rows;
    const size_t place = PartRow(entry, by_value ? 0 : inside);
    // Rows that follow one another there as here go by one read.
    size_t run = 1;
    while (!entry.widen && r + run < first + count && inside + run < entry.part_rows &&
           PartRow(entry, inside + run) == place + run) {
      ++run;
    }
    uint8_t* target = entry.widen ? row.data() : out + (r - first) * to_bytes;
    MOONLIT_RETURN_IF_ERROR(part.file->Read(*part.tensor, uint64_t{place} * from_bytes, target, run * from_bytes));
    if (entry.widen) {
      std::vector<float> values(columns);
      Traits(from).dequantize(row.data(), values.data(), columns);
      std::vector<float> ordered = values;
      for (size_t i = 0; by_value && i < columns; ++i) ordered[i] = values[PartRow(entry, i)];
      for (float& value : ordered) value += entry.add_one ? 1.0f : 0.0f;
      std::memcpy(out + (r - first) * to_bytes, ordered.data(), to_bytes);
    }
    r += run;
  }
  return Status();
}

Status HuggingFaceSource::Read(const TensorInfo& tensor, uint64_t offset, void* out, size_t size) const {
  const auto found = by_name_.find(tensor.name);
  if (found == by_name_.end())
    return Errorf(Code::kInvalidArgument, "%s has no tensor %s to read", folder_.c_str(), tensor.name.c_str());
  const Entry& entry = entries_[found->second];
  if (entry.parts.empty()) {
    const TensorInfo& info = entry.info;
    return ReadByRows(*this, info, offset, out, size, [&](size_t, size_t, uint8_t* to) {
      std::memcpy(to, rope_divisors_.data(), static_cast<size_t>(info.bytes));
      return Status();
    });
  }
  return ReadByRows(*this, entry.info, offset, out, size,
                    [&](size_t first, size_t rows, uint8_t* to) { return ReadRows(entry, first, rows, to); });
}

std::vector<std::string> HuggingFaceSource::Files() const {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().string();
    if (path.ends_with(".safetensors") || path.ends_with(".json") || path.ends_with(".jinja")) paths.push_back(path);
  }
  return paths;
}

Result<uint64_t> HuggingFaceSource::Fingerprint() const {
  Checksum sum;
  for (const SafetensorsFile& file : set_.files()) {
    if (file.file() == nullptr) return WeightSource::Fingerprint();
    MOONLIT_RETURN_IF_ERROR(AddFingerprint(*file.file(), file.header().data(), file.header().size(), &sum));
  }
  // What config.json makes of them.
  sum.Add(rope_divisors_.data(), rope_divisors_.size() * sizeof(float));
  for (const Entry& entry : entries_) {
    const uint64_t words[] = {static_cast<uint64_t>(entry.order), entry.group_rows, uint64_t{entry.add_one},
                              static_cast<uint64_t>(entry.info.format), entry.info.bytes};
    sum.Add(entry.info.name.data(), entry.info.name.size());
    for (const SafetensorsEntry& part : entry.parts) sum.Add(part.tensor->name.data(), part.tensor->name.size());
    sum.Add(words, sizeof words);
  }
  return sum.Value();
}

}  // namespace moonlit
