// SPDX-License-Identifier: Apache-2.0
#include "runtime/convert/hugging_face_source.h"

#include <dirent.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "runtime/base/checksum.h"
#include "runtime/weights/fingerprint.h"
#include "runtime/weights/rows.h"

namespace moonlit {
namespace {

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
                                                                     std::vector<MadeTensor> made,
                                                                     const std::string& folder) {
  std::unique_ptr<HuggingFaceSource> source(new HuggingFaceSource);
  source->set_ = std::move(set);
  source->folder_ = folder;
  for (MadeTensor& tensor : made) {
    Entry entry = {};
    entry.info = {tensor.name, Format::kF32, Shape{tensor.values.size()}, tensor.values.size() * sizeof(float)};
    entry.made = std::move(tensor.values);
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
  entry.rows = tensor.rows;
  entry.add_one = tensor.add_one;
  MOONLIT_RETURN_IF_ERROR(SetShape(tensor, &entry));
  entry.widen = tensor.keep_f32 || entry.info.shape.rank() <= 1 || tensor.name.ends_with("_norm.weight");
  entry.info.format = entry.widen ? Format::kF32 : entry.parts[0].tensor->type->format;
  entry.info.bytes = uint64_t{entry.info.shape.rows()} * RowBytes(entry.info.format, entry.info.shape.columns());
  entries_.push_back(std::move(entry));
  return Status();
}

// Takes `dims` from the folder's to GGUF's.
Status HuggingFaceSource::OrderRows(const MappedTensor& tensor, std::vector<uint64_t>* dims, Entry* entry) const {
  const RowOrder order = tensor.rows.order;
  if (order == RowOrder::kSame) return Status();
  const bool half = order == RowOrder::kFirstHalf || order == RowOrder::kSecondHalf;
  // A bias is a column of rows with one value each.
  const size_t rank = dims->size(), row_dim = rank == 1 ? 0 : rank - 2;
  const bool fits = half ? rank >= 2 : order == RowOrder::kTransposed ? rank == 2 : rank <= 2;
  if (!fits || !entry->rows.SetRows((*dims)[row_dim])) {
    std::string expected = "a matrix";
    if (half) expected = "an even number of rows";
    if (order == RowOrder::kRotary)
      expected = "rows for " + std::to_string(tensor.rows.heads) + " heads of an even size";
    if (order == RowOrder::kGroupedQkv) {
      expected = "rows for " + std::to_string(tensor.rows.heads) + " heads of queries and " +
                 std::to_string(tensor.rows.kv_heads) + " of keys and values";
    }
    return WrongShape(folder_, tensor, *entry->parts[0].tensor, expected);
  }
  if (half) (*dims)[row_dim] /= 2;
  if (order == RowOrder::kTransposed) std::swap((*dims)[0], (*dims)[1]);
  return Status();
}

Status HuggingFaceSource::SetShape(const MappedTensor& tensor, Entry* entry) const {
  const SafetensorsTensor& part = *entry->parts[0].tensor;
  std::vector<uint64_t> dims = part.shape;
  const size_t stacked = entry->parts.size() > 1 ? 1 : 0;
  if (part.bytes == 0 || dims.empty() || dims.size() + stacked > Shape::kMaxRank)
    return WrongShape(folder_, tensor, part, "1 to 4 dimensions of at least 1");
  MOONLIT_RETURN_IF_ERROR(OrderRows(tensor, &dims, entry));
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

// Rows [first, first + count) of a tensor that lies transposed: a piece of each of the folder's rows.
Status HuggingFaceSource::ReadColumns(const Entry& entry, size_t first, size_t count, uint8_t* out) const {
  const SafetensorsEntry& part = entry.parts[0];
  const size_t columns = entry.info.shape.columns(), value_bytes = RowBytes(entry.info.format, 1);
  const uint64_t row_bytes = uint64_t{entry.part_rows} * value_bytes;
  std::vector<uint8_t> piece(count * value_bytes);
  for (size_t c = 0; c < columns; ++c) {
    MOONLIT_RETURN_IF_ERROR(
        part.file->Read(*part.tensor, row_bytes * c + uint64_t{first} * value_bytes, piece.data(), piece.size()));
    for (size_t r = 0; r < count; ++r)
      std::memcpy(out + (r * columns + c) * value_bytes, piece.data() + r * value_bytes, value_bytes);
  }
  return Status();
}

// Its rows are single values.
Status HuggingFaceSource::ReadVector(const Entry& entry, uint8_t* out) const {
  const SafetensorsEntry& part = entry.parts[0];
  const size_t count = entry.info.shape.columns();
  const Format from = part.tensor->type->format;
  std::vector<uint8_t> bytes(RowBytes(from, count));
  MOONLIT_RETURN_IF_ERROR(part.file->Read(*part.tensor, 0, bytes.data(), bytes.size()));
  std::vector<float> values(count), ordered(count);
  Traits(from).dequantize(bytes.data(), values.data(), count);
  for (size_t i = 0; i < count; ++i) ordered[i] = values[entry.rows.SourceRow(i)] + (entry.add_one ? 1.0f : 0.0f);
  std::memcpy(out, ordered.data(), count * sizeof(float));
  return Status();
}

// Rows [first, first + count) of the tensor.
Status HuggingFaceSource::ReadRows(const Entry& entry, size_t first, size_t count, uint8_t* out) const {
  if (entry.info.shape.rank() <= 1) return ReadVector(entry, out);
  if (entry.rows.order == RowOrder::kTransposed) return ReadColumns(entry, first, count, out);
  const size_t columns = entry.info.shape.columns();
  const Format from = entry.parts[0].tensor->type->format;
  const size_t from_bytes = RowBytes(from, columns), to_bytes = RowBytes(entry.info.format, columns);
  std::vector<uint8_t> row(entry.widen ? from_bytes : 0);
  for (size_t r = first; r < first + count;) {
    const SafetensorsEntry& part = entry.parts[r / entry.part_rows];
    const size_t inside = r % entry.part_rows;
    const size_t place = entry.rows.SourceRow(inside);
    // Rows that follow one another there as here go by one read.
    size_t run = 1;
    while (!entry.widen && r + run < first + count && inside + run < entry.part_rows &&
           entry.rows.SourceRow(inside + run) == place + run) {
      ++run;
    }
    uint8_t* target = entry.widen ? row.data() : out + (r - first) * to_bytes;
    MOONLIT_RETURN_IF_ERROR(part.file->Read(*part.tensor, uint64_t{place} * from_bytes, target, run * from_bytes));
    if (entry.widen) {
      std::vector<float> values(columns);
      Traits(from).dequantize(row.data(), values.data(), columns);
      for (float& value : values) value += entry.add_one ? 1.0f : 0.0f;
      std::memcpy(out + (r - first) * to_bytes, values.data(), to_bytes);
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
      std::memcpy(to, entry.made.data(), static_cast<size_t>(info.bytes));
      return Status();
    });
  }
  return ReadByRows(*this, entry.info, offset, out, size,
                    [&](size_t first, size_t rows, uint8_t* to) { return ReadRows(entry, first, rows, to); });
}

// By the system's own functions: std::filesystem's take memory where libstdc++ has promised to throw nothing.
std::vector<std::string> HuggingFaceSource::Files() const {
  struct Close {
    void operator()(DIR* open) const { closedir(open); }
  };
  std::vector<std::string> paths;
  const std::unique_ptr<DIR, Close> folder(opendir(folder_.c_str()));
  while (const dirent* found = folder == nullptr ? nullptr : readdir(folder.get())) {
    const std::string_view name = found->d_name;
    if (name.ends_with(".safetensors") || name.ends_with(".json") || name.ends_with(".jinja") ||
        name.ends_with(".model"))
      paths.push_back(folder_ + (folder_.ends_with('/') ? "" : "/") + found->d_name);
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
  for (const Entry& entry : entries_) {
    const uint64_t words[] = {static_cast<uint64_t>(entry.rows.order),
                              entry.rows.heads,
                              entry.rows.kv_heads,
                              entry.rows.group_rows,
                              uint64_t{entry.add_one},
                              static_cast<uint64_t>(entry.info.format),
                              entry.info.bytes};
    sum.Add(entry.info.name.data(), entry.info.name.size());
    sum.Add(entry.made.data(), entry.made.size() * sizeof(float));
    for (const SafetensorsEntry& part : entry.parts) sum.Add(part.tensor->name.data(), part.tensor->name.size());
    sum.Add(words, sizeof words);
  }
  return sum.Value();
}

}  // namespace moonlit
