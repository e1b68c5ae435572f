// SPDX-License-Identifier: Apache-2.0
// Another source's tensors in other formats: rows are decoded and encoded when they are read, so that files are written, and
// models loaded, without a second copy of any tensor.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/convert/imatrix.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

// Immutable; every function may be called from several threads at once. The bytes of a row depend on that row alone.
class EncodedSource : public WeightSource {
 public:
  // formats: one a tensor of base->All(). `importance` may be null. kInvalidArgument: rows that do not fit their format, or
  // importance of another size than its tensor (its columns, for every expert).
  static Result<std::unique_ptr<EncodedSource>> Create(std::shared_ptr<const WeightSource> base,
                                                       const std::vector<Format>& formats,
                                                       std::shared_ptr<const ImportanceMatrix> importance);

  const TensorInfo* Find(std::string_view name) const override;
  std::vector<const TensorInfo*> All() const override;
  // Also kCorrupt for a value that is not a number or infinite, and kUnsupported for one that F16 can't hold. Costs least for
  // whole rows.
  Status Read(const TensorInfo& tensor, uint64_t offset, void* out, size_t size) const override;
  std::string description() const override { return base_->description(); }
  // The base's, and the importance matrix.
  std::vector<std::string> Files() const override;
  // The base's, with the formats.
  Result<uint64_t> Fingerprint() const override;

 private:
  struct Entry {
    TensorInfo info;
    const TensorInfo* from;
    const float* importance;  // [experts, columns] or null
  };
  EncodedSource() = default;
  Status EncodeRows(const Entry& entry, size_t first, size_t rows, uint8_t* out) const;

  std::shared_ptr<const WeightSource> base_;
  std::shared_ptr<const ImportanceMatrix> importance_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

}  // namespace moonlit
