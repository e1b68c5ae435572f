// SPDX-License-Identifier: Apache-2.0
#include "runtime/convert/imatrix.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/base/quote.h"
#include "runtime/gguf/gguf.h"

namespace moonlit {
namespace {

constexpr char kAdvice[] = "make it anew with llama-imatrix";

// Reads the old format front to back.
class OldFile {
 public:
  explicit OldFile(const File& file) : file_(file) {}

  bool AtEnd() const { return position_ == file_.size(); }
  Result<int32_t> Int(const char* what, int64_t low, int64_t high) {
    int32_t value = 0;
    MOONLIT_RETURN_IF_ERROR(Bytes(what, &value, sizeof value));
    if (value >= low && value <= high) return value;
    return Errorf(Code::kCorrupt, "imatrix %s: %s before byte %llu is %d, expected %lld to %lld: %s",
                  file_.path().c_str(), what, static_cast<unsigned long long>(position_), value,
                  static_cast<long long>(low), static_cast<long long>(high), kAdvice);
  }
  // No more than the file holds, whatever `count` says.
  Status Bytes(const char* what, void* out, uint64_t count) {
    if (count > file_.size() - position_) {
      return Errorf(Code::kCorrupt, "imatrix %s: expected %llu bytes of %s at byte %llu, found %llu: %s",
                    file_.path().c_str(), static_cast<unsigned long long>(count), what,
                    static_cast<unsigned long long>(position_),
                    static_cast<unsigned long long>(file_.size() - position_), kAdvice);
    }
    MOONLIT_RETURN_IF_ERROR(file_.ReadAt(position_, out, static_cast<size_t>(count)));
    position_ += count;
    return Status();
  }
  Result<std::string> String(const char* what) {
    MOONLIT_ASSIGN_OR_RETURN(const int32_t length, Int(what, 0, 65535));
    std::string text(static_cast<size_t>(length), '\0');
    MOONLIT_RETURN_IF_ERROR(Bytes(what, text.data(), text.size()));
    return text;
  }
  Result<std::vector<float>> Floats(const char* what, int32_t count) {
    const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(float);
    std::vector<float> values(bytes <= file_.size() - position_ ? static_cast<size_t>(count) : 0);
    MOONLIT_RETURN_IF_ERROR(Bytes(what, values.data(), bytes));
    return values;
  }

 private:
  const File& file_;
  uint64_t position_ = 0;
};

Status AddRows(const std::string& name, std::vector<float> values, ImportanceMatrix* matrix) {
  for (float value : values) {
    if (std::isfinite(value) && value >= 0) continue;
    return Errorf(Code::kCorrupt, "imatrix %s: entry %s has the value %g, expected finite ones from 0 up: %s",
                  matrix->path.c_str(), QuoteForMessage(name).c_str(), static_cast<double>(value), kAdvice);
  }
  if (!matrix->rows.emplace(name, std::move(values)).second) {
    return Errorf(Code::kCorrupt, "imatrix %s: entry %s stands twice: %s", matrix->path.c_str(),
                  QuoteForMessage(name).c_str(), kAdvice);
  }
  return Status();
}

Status ReadOld(const File& file, ImportanceMatrix* matrix) {
  OldFile in(file);
  MOONLIT_ASSIGN_OR_RETURN(const int32_t entries, in.Int("the number of entries", 1, 1 << 20));
  for (int32_t i = 0; i < entries; ++i) {
    MOONLIT_ASSIGN_OR_RETURN(const std::string name, in.String("an entry's name"));
    MOONLIT_ASSIGN_OR_RETURN(const int32_t calls, in.Int("a number of calls", 0, INT32_MAX));
    MOONLIT_ASSIGN_OR_RETURN(const int32_t count, in.Int("a number of values", 1, INT32_MAX));
    MOONLIT_ASSIGN_OR_RETURN(std::vector<float> values, in.Floats("values", count));
    if (calls > 0) {
      for (float& value : values) value /= static_cast<float>(calls);
    }
    MOONLIT_RETURN_IF_ERROR(AddRows(name, std::move(values), matrix));
  }
  // Later versions of the old format end with how many chunks of which text were read.
  if (in.AtEnd()) return Status();
  MOONLIT_ASSIGN_OR_RETURN(const int32_t chunks, in.Int("the number of chunks", 0, INT32_MAX));
  matrix->chunks = static_cast<uint32_t>(chunks);
  if (in.AtEnd()) return Status();
  MOONLIT_ASSIGN_OR_RETURN(matrix->dataset, in.String("the data set's name"));
  return Status();
}

Result<std::vector<float>> ReadFloats(const GgufFile& file, const GgufTensor& tensor) {
  if (!tensor.type->supported || tensor.type->format != Format::kF32) {
    return Errorf(Code::kCorrupt, "imatrix %s: tensor %s is %s, expected F32: %s", file.path().c_str(),
                  QuoteForMessage(tensor.name).c_str(), tensor.type->name, kAdvice);
  }
  std::vector<float> values(static_cast<size_t>(tensor.bytes / sizeof(float)));
  MOONLIT_RETURN_IF_ERROR(file.ReadTensor(tensor, 0, values.data(), values.size() * sizeof(float)));
  return values;
}

Status ReadGguf(const std::string& path, ImportanceMatrix* matrix) {
  constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";
  MOONLIT_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  for (const GgufTensor& tensor : file.tensors()) {
    if (!tensor.name.ends_with(kSums)) continue;
    const std::string name(tensor.name.substr(0, tensor.name.size() - kSums.size()));
    const GgufTensor* counted = file.FindTensor(name + std::string(kCounts));
    if (counted == nullptr) {
      return Errorf(Code::kCorrupt, "imatrix %s: expected a tensor %s beside its sums: %s", path.c_str(),
                    QuoteForMessage(name + std::string(kCounts)).c_str(), kAdvice);
    }
    MOONLIT_ASSIGN_OR_RETURN(std::vector<float> values, ReadFloats(file, tensor));
    MOONLIT_ASSIGN_OR_RETURN(const std::vector<float> counts, ReadFloats(file, *counted));
    if (values.size() % counts.size() != 0) {
      return Errorf(Code::kCorrupt, "imatrix %s: entry %s has %zu sums for %zu counts: %s", path.c_str(),
                    QuoteForMessage(name).c_str(), values.size(), counts.size(), kAdvice);
    }
    // An expert that was never chosen says nothing: all its columns count alike.
    const size_t columns = values.size() / counts.size();
    for (size_t i = 0; i < values.size(); ++i) {
      const float count = counts[i / columns];
      values[i] = count > 0 ? values[i] / count : 1.0f;
    }
    MOONLIT_RETURN_IF_ERROR(AddRows(name, std::move(values), matrix));
  }
  if (const Result<uint32_t> chunks = file.GetU32("imatrix.chunk_count"); chunks.ok()) matrix->chunks = chunks.value();
  if (const Result<GgufStrings> sets = file.GetStringArray("imatrix.datasets"); sets.ok() && sets->size() != 0)
    matrix->dataset = std::string((*sets)[0]);
  return Status();
}

}  // namespace

Result<ImportanceMatrix> ReadImportanceMatrix(const std::string& path) {
  ImportanceMatrix matrix;
  matrix.path = path;
  MOONLIT_ASSIGN_OR_RETURN(const File file, File::Open(path));
  char magic[4] = {};
  if (file.size() >= sizeof magic) MOONLIT_RETURN_IF_ERROR(file.ReadAt(0, magic, sizeof magic));
  const bool gguf = std::memcmp(magic, "GGUF", sizeof magic) == 0;
  MOONLIT_RETURN_IF_ERROR(gguf ? ReadGguf(path, &matrix) : ReadOld(file, &matrix));
  if (matrix.rows.empty()) {
    return Errorf(Code::kCorrupt, "imatrix %s: expected importance of at least one tensor, found none: %s",
                  path.c_str(), kAdvice);
  }
  return matrix;
}

}  // namespace moonlit
